//! A plan against figures that were calculated by hand, and runs that make no sense.

use lmc::ErrorKind;

use super::*;

/// 16 GB saved every 100 steps of half a second by 4 cores to 2 GB/s.
fn inputs() -> Inputs {
    Inputs {
        state_bytes: 16_000_000_000,
        cores: 4,
        bandwidth: 2e9,
        copy_speed: 8e9,
        step_time: 0.5,
        interval: 100,
        keep_last: 3,
        keep_every: Some(1000),
        whole_every: 8,
    }
}

fn row(engine: &'static str, level: &str, grouped: bool, base: bool, figures: [f64; 3]) -> Row {
    let [ratio, compress_cpu, decompress_cpu] = figures;
    Row {
        engine,
        level: level.into(),
        grouped,
        base,
        xor: base && engine != "lmc",
        bytes_in: 1000,
        bytes_out: 500,
        ratio,
        bits_per_value: 16.0 / ratio,
        // Twice as slow by the clock, as on a busy machine.
        compress_speed: compress_cpu / 2.0,
        decompress_speed: decompress_cpu / 2.0,
        compress_cpu,
        decompress_cpu,
    }
}

fn ours() -> [Row; 2] {
    [
        row("lmc", "default", false, false, [1.5, 1e9, 2e9]),
        row("lmc", "default", false, true, [4.0, 0.8e9, 1e9]),
    ]
}

fn plan(inputs: Inputs) -> Vec<Method> {
    Plan::new(inputs, &ours()).expect("a plan").methods
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}");
}

/// Without compression, everything follows from the storage and the copy.
#[test]
fn bytes_as_they_are() {
    let none = &plan(inputs())[0];
    assert_eq!((none.name.as_str(), none.engine, none.delta), ("none", "none", false));
    assert_eq!((none.ratio, none.whole_ratio, none.compress_speed), (1.0, 1.0, None));
    // 16 GB at 2 GB/s, and a copy at 8 GB/s; 50 s between saves.
    assert_eq!((none.save, none.wait_blocking, none.wait_background), (8.0, 8.0, 2.0));
    assert_near(none.lost_blocking, 8.0 / 58.0);
    assert_near(none.lost_background, 2.0 / 52.0);
    for (percent, blocking, background) in [(1, 792.0, 198.0), (2, 392.0, 98.0), (5, 152.0, 38.0)] {
        assert_near(none.shortest_blocking[&percent], blocking);
        assert_near(none.shortest_background[&percent], background);
    }
    // 51,840 saves of 100 steps in 30 days: 5,184 of them at multiples of 1000, and 3.
    assert_near(none.month_bytes, 5187.0 * 16e9);
    assert_near(none.restore, 8.0);
}

/// A method that compresses is as slow as the slower of its cores and the storage.
#[test]
fn whole_and_delta() {
    let methods = plan(inputs());
    let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
    assert_eq!(names, ["none", "lmc default", "lmc default, delta"]);
    let [_, whole, delta] = methods.as_slice() else { panic!("three methods") };
    // Coding takes 4 s and writing a third less than 8 s.
    assert_near(whole.save, 16.0 / 3.0);
    assert_near(whole.restore, 16.0 / 3.0);
    assert_near(whole.month_bytes, 5187.0 * 16e9 / 1.5);
    // Coding takes 5 s, writing 2 s.
    assert_near(delta.save, 5.0);
    assert_eq!((delta.ratio, delta.whole_ratio), (4.0, 1.5));
    // 7 deltas of 4 GB for each whole checkpoint.
    assert_near(delta.month_bytes, 5187.0 * (28e9 + 16e9 / 1.5) / 8.0);
    // A whole checkpoint and, on average, 3.5 deltas of 4 s.
    assert_near(delta.restore, 16.0 / 3.0 + 14.0);
    assert_near(delta.lost_blocking, 5.0 / 55.0);
}

/// A save that takes longer than the steps between makes training wait for the rest of it.
#[test]
fn saves_that_overlap() {
    let none = &plan(Inputs { interval: 4, ..inputs() })[0];
    assert_near(none.wait_background, 2.0 + 6.0);
    assert_near(none.lost_background, 0.8);
    // However fast the copy is, the next save begins when this one is done.
    assert_near(none.shortest_background[&5], 38.0);
    let none = &plan(Inputs { copy_speed: 1e12, ..inputs() })[0];
    assert_near(none.shortest_background[&5], 8.0);
}

/// What is kept is limited by both rules of retention and by how many saves there are.
#[test]
fn what_is_kept() {
    let kept = |inputs: Inputs| plan(inputs)[0].month_bytes / 16e9;
    assert_near(kept(Inputs { keep_every: None, ..inputs() }), 3.0);
    assert_near(kept(Inputs { keep_last: 10, keep_every: None, ..inputs() }), 10.0);
    // A save every 864,000 s.
    let rare = Inputs { interval: 1, step_time: 864_000.0, keep_last: 9, ..inputs() };
    assert_near(kept(rare), 3.0);
    // If all of them are whole, a delta method stores as much as the whole one.
    let methods = plan(Inputs { whole_every: 1, ..inputs() });
    assert_near(methods[2].month_bytes, methods[1].month_bytes);
    assert_near(methods[2].restore, methods[1].restore);
}

/// Values that are all the same are limited by the codec alone, and give no strange numbers.
#[test]
fn huge_ratios() {
    let rows = [
        row("lmc", "fast", false, false, [1e12, 1e9, 1e9]),
        row("lmc", "fast", false, true, [1e12, 1e9, 1e9]),
    ];
    let plan = Plan::new(inputs(), &rows).expect("a plan");
    assert_near(plan.methods[2].save, 4.0);
    let text = serde_json::to_string(&plan).expect("JSON");
    assert!(!plan.cells().concat().concat().contains("NaN"), "{:?}", plan.cells());
    assert_eq!(text.matches("null").count(), 3, "speeds of no compression: {text}");
}

/// The methods of other compressors are those of the rows; where nothing is grouped, a delta is of
/// raw bytes.
#[test]
fn methods_of_others() {
    let names = |rows: &[Row]| -> Vec<String> {
        let methods = Plan::new(inputs(), rows).expect("a plan").methods;
        methods.into_iter().skip(1).map(|method| method.name).collect()
    };
    let zstd = |grouped, base| row("zstd", "3", grouped, base, [1.2, 3e8, 9e8]);
    let mut rows = vec![zstd(false, false), zstd(false, true)];
    assert_eq!(names(&rows), ["zstd -3", "XOR, zstd -3, delta"]);
    rows.extend([zstd(true, false), zstd(true, true)]);
    let grouped = ["zstd -3", "zstd -3, byte groups", "XOR, zstd -3, byte groups, delta"];
    assert_eq!(names(&rows), grouped);
    assert_eq!(names(&[]), [""; 0]);
}

/// Each fact that makes no sense is refused in words.
#[test]
fn facts_that_make_no_sense() {
    for (wrong, expected) in [
        (Inputs { state_bytes: 0, ..inputs() }, "no bytes"),
        (Inputs { cores: 0, ..inputs() }, "core"),
        (Inputs { bandwidth: 0.0, ..inputs() }, "bandwidth"),
        (Inputs { bandwidth: f64::NAN, ..inputs() }, "bandwidth"),
        (Inputs { copy_speed: 0.0, ..inputs() }, "speed of a copy"),
        (Inputs { step_time: -1.0, ..inputs() }, "time of a step"),
        (Inputs { interval: 0, ..inputs() }, "interval"),
        (Inputs { keep_every: Some(0), ..inputs() }, "steps to keep"),
        (Inputs { whole_every: 0, ..inputs() }, "whole"),
    ] {
        let error = Plan::new(wrong, &ours()).expect_err(expected);
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The text has a line about the run and a cell for each column.
#[test]
fn as_text() {
    let plan = Plan::new(inputs(), &ours()).expect("a plan");
    let expected = "14.9 GiB every 100 steps of 500 ms, 4 cores, storage at 1.86 GiB/s, \
                    copies at 7.45 GiB/s";
    assert_eq!(plan.head(), expected);
    let none = [
        "none", "1.00", "8.00 s", "13.8 %", "3.85 %", "13.2 min", "3.30 min", "75.5 TiB", "8.00 s",
    ];
    assert_eq!(plan.cells()[0], none);
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["methods"][0]["shortest_blocking"]["1"], 792.0);
    assert_eq!(json["inputs"]["keep_every"], 1000);
}
