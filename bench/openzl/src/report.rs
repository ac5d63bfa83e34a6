//! The rows as a table in Markdown: speeds by CPU time, and by wall time beside them.

use lmc_bench::report::Row;

/// Prints the heading of the table.
pub fn print_heading() {
    println!(
        "| data | engine | bits per value | compress GiB/s | decompress GiB/s | of memcpy \
         | by wall time |"
    );
    println!("|---|---|---|---|---|---|---|");
}

/// Prints one row of it.
pub fn print_row(row: &Row) {
    println!(
        "| {} | {} | {:.3} | {:.2} | {:.2} | {:.2} / {:.2} | {:.2} / {:.2} |",
        row.set,
        format!("{} {}", row.engine, row.level).trim_end(),
        row.bits_per_value,
        row.compress_cpu_gib_s,
        row.decompress_cpu_gib_s,
        row.compress_cpu_gib_s / row.memcpy_cpu_gib_s,
        row.decompress_cpu_gib_s / row.memcpy_cpu_gib_s,
        row.compress_gib_s,
        row.decompress_gib_s,
    );
}
