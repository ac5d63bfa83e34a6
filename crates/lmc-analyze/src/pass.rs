//! One pass over a checkpoint, alone or against another one: every tensor is read once, in pieces,
//! on several threads.
//!
//! Each thread counts a piece and adds its histograms to those of the tensor. The thread that adds
//! the last piece turns them into figures, so histograms of few tensors exist at a time.

use crate::count::Words;
use crate::count::alone::{AloneCounter, AloneTally};
use crate::count::change::{ChangeCounter, ChangeTally};
use crate::figures::{Alone, Change, Coded, Exponents};
use crate::opened::{OpenTensor, Opened};
use crate::piece::{Part, Piece};
use lmc::{Base, Context, Error, ErrorKind, Level, Result, SpanSizer};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What is done with a checkpoint.
pub(crate) struct Pass<'a> {
    pub new: &'a Opened,
    /// What it is compared with.
    pub base: Option<&'a Opened>,
    /// Whether all values are counted, also without the base; otherwise a sample is compared.
    pub is_full: bool,
    /// Whether everything is coded that is counted.
    pub codes_all: bool,
    /// What the sample of each tensor takes without a base, if that is known.
    pub alone: &'a [Option<Alone>],
    pub workers: &'a Workers,
}

/// What is known of each tensor after a pass, in the order of the checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub tensors: Vec<Measured>,
    /// Files of the checkpoint that could not be read.
    pub failed: BTreeMap<usize, Error>,
    /// Files of the base that could not be read.
    pub failed_base: BTreeMap<usize, Error>,
}

/// What is known of a tensor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub alone: Option<Alone>,
    pub exponents: Exponents,
    pub change: Option<Change>,
}

/// The sums over the pieces of a tensor.
#[derive(Debug)]
struct Sums {
    pieces_left: u64,
    alone: AloneTally,
    change: ChangeTally,
    /// How often each exponent occurs in the sample of the base.
    exponents: Vec<u64>,
    coded: Coded,
    coded_against: Coded,
}

/// Why a piece could not be read.
enum Failure {
    New(Error),
    Base(Error),
}

/// The states of threads between passes. Their tables and buffers are kept, because new memory
/// costs a page fault for each 4 KiB, and a series of small checkpoints takes many passes.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<Vec<Worker>>);

/// A state that goes back to the others when its thread ends.
struct Lent<'a> {
    worker: Option<Worker>,
    workers: &'a Workers,
}

/// The state of a thread.
#[derive(Debug)]
struct Worker {
    new: Vec<u8>,
    old: Vec<u8>,
    alone: AloneCounter,
    change: ChangeCounter,
    sizer: SpanSizer,
}

/// The state that all threads share.
#[derive(Default)]
struct Shared {
    sums: HashMap<usize, Sums>,
    found: Found,
}

impl Worker {
    fn new() -> Self {
        let (new, old, sizer) = (Vec::new(), Vec::new(), SpanSizer::new(Level::Default));
        Self { new, old, alone: AloneCounter::new(), change: ChangeCounter::new(), sizer }
    }
}

impl Workers {
    /// One that is free, or a new one.
    fn lend(&self) -> Lent<'_> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Lent { worker: Some(known.unwrap_or_else(Worker::new)), workers: self }
    }
}

impl Lent<'_> {
    fn get(&mut self) -> &mut Worker {
        self.worker.get_or_insert_with(Worker::new)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.workers.0.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
    }
}

impl Pass<'_> {
    /// How much of each piece is coded, or compared if that is not all.
    fn part(&self) -> Part {
        match (self.codes_all, self.is_full) {
            (true, _) => Part::All,
            (false, true) => Part::Coded,
            (false, false) => Part::Far,
        }
    }

    /// Does it. Fails only if it is interrupted or memory is short.
    pub(crate) fn run(&self, context: &Context) -> Result<Found> {
        // The first piece of each tensor.
        let mut starts = Vec::with_capacity(self.new.tensors.len());
        let mut count = 0;
        for (i, tensor) in self.new.tensors.iter().enumerate() {
            starts.push(count);
            if self.is_full || self.base_of(i).is_some() {
                count += Piece::count(tensor.len());
            }
        }
        let mut shared = Shared::default();
        shared.found.tensors = vec![Measured::default(); self.new.tensors.len()];
        let empty = self.new.tensors.iter().enumerate().filter(|(_, tensor)| tensor.len() == 0);
        for (i, tensor) in empty {
            shared.found.tensors[i] = self.measured(i, &Sums::new(tensor));
        }
        let shared = Mutex::new(shared);
        let count = usize::try_from(count).map_err(|_| Error::invalid("has too many bytes"))?;
        lmc::each(
            count,
            context,
            || self.workers.lend(),
            |worker, job| {
                let tensor = starts.partition_point(|&start| start <= job as u64) - 1;
                let piece = job as u64 - starts[tensor];
                self.do_piece(worker.get(), tensor, piece, &shared, context)
            },
        )?;
        let mut found = shared.into_inner().unwrap_or_else(PoisonError::into_inner).found;
        for (file, error) in self.new.changed() {
            found.failed.entry(file).or_insert(error);
        }
        for (file, error) in self.base.iter().flat_map(|base| base.changed()) {
            found.failed_base.entry(file).or_insert(error);
        }
        for (i, tensor) in found.tensors.iter_mut().enumerate() {
            let base = self.base_of(i).map(|(_, base, _)| base.file);
            if base.is_some_and(|file| found.failed_base.contains_key(&file)) {
                tensor.change = None;
            }
        }
        Ok(found)
    }

    /// The tensor that tensor `i` is compared with: the one of the same name, type and shape.
    fn base_of(&self, i: usize) -> Option<(usize, &OpenTensor, &Base)> {
        let (tensor, base) = (&self.new.tensors[i], self.base?);
        let number = base.find(&tensor.name)?;
        let other = &base.tensors[number];
        let is_alike =
            other.info.dtype == tensor.info.dtype && other.info.shape == tensor.info.shape;
        is_alike.then(|| (number, other, &*base.files[other.file].base))
    }

    fn do_piece(
        &self,
        worker: &mut Worker,
        i: usize,
        piece: u64,
        shared: &Mutex<Shared>,
        context: &Context,
    ) -> Result<()> {
        let tensor = &self.new.tensors[i];
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = Piece::new(piece, tensor.len(), tensor.row_bytes, self.part());
        if lock().found.failed.contains_key(&tensor.file) {
            context.progress.add(self.progress(&piece));
            return Ok(());
        }
        let mut own = Sums::new(tensor);
        let failure = self.count(worker, i, &piece, &mut own).err();
        context.progress.add(self.progress(&piece));
        let mut shared = lock();
        match failure {
            None => {}
            Some(Failure::New(error) | Failure::Base(error))
                if error.kind == ErrorKind::Interrupted =>
            {
                return Err(error);
            }
            Some(Failure::New(error)) => {
                shared.found.failed.entry(tensor.file).or_insert(error);
                shared.sums.remove(&i);
                return Ok(());
            }
            Some(Failure::Base(error)) => {
                let file = self.base_of(i).map_or(0, |(_, base, _)| base.file);
                shared.found.failed_base.entry(file).or_insert(error);
            }
        }
        let sums = shared.sums.entry(i).or_insert_with(|| Sums::new(tensor));
        sums.add(&own);
        if sums.pieces_left == 0
            && let Some(sums) = shared.sums.remove(&i)
        {
            drop(shared);
            let measured = self.measured(i, &sums);
            lock().found.tensors[i] = measured;
        }
        Ok(())
    }

    /// The bytes that a piece counts for in the progress.
    fn progress(&self, piece: &Piece) -> u64 {
        let range = if self.is_full { &piece.all } else { &piece.coded };
        range.end - range.start
    }

    /// Reads and counts a piece.
    fn count(
        &self,
        worker: &mut Worker,
        i: usize,
        piece: &Piece,
        sums: &mut Sums,
    ) -> std::result::Result<(), Failure> {
        let result = if self.is_full {
            piece.parts().try_for_each(|part| self.count_part(worker, i, piece, &part, sums))
        } else {
            self.count_part(worker, i, piece, &piece.coded, sums)
        };
        // Also after a failure, so that nothing is left for the next piece.
        sums.change = worker.change.take(Words::of(self.new.tensors[i].info.dtype));
        result
    }

    /// Reads and counts a part of a piece.
    fn count_part(
        &self,
        worker: &mut Worker,
        i: usize,
        piece: &Piece,
        part: &Range<u64>,
        sums: &mut Sums,
    ) -> std::result::Result<(), Failure> {
        let tensor = &self.new.tensors[i];
        let (dtype, words) = (tensor.info.dtype, Words::of(tensor.info.dtype));
        let row_len = tensor.row_bytes / words.width as u64;
        // The places of a range in this part.
        let within = |range: &Range<u64>| {
            let place = |at: u64| (at.clamp(part.start, part.end) - part.start) as usize;
            place(range.start)..place(range.end)
        };
        let counted = within(if self.is_full { &piece.all } else { &piece.coded });
        // All of it is in the first part.
        let coded = within(&piece.coded);
        let raw = coded.len() as u64;
        let file = &self.new.files[tensor.file].base;
        let new = sized(&mut worker.new, part);
        file.sample(tensor.info.range.start + part.start, new).map_err(Failure::New)?;
        let new = &*new;
        if self.is_full {
            sums.alone.add(&worker.alone.count(words, &new[counted.clone()]));
            if raw > 0 {
                let len = worker.sizer.coded_len(dtype, row_len, &new[coded.clone()], None);
                sums.coded = Coded { raw, coded: len.map_err(Failure::New)? };
            }
        }
        let Some((_, other, base)) = self.base_of(i) else { return Ok(()) };
        let old = sized(&mut worker.old, part);
        base.sample(other.info.range.start + part.start, old).map_err(Failure::Base)?;
        let old = &*old;
        worker.change.compare(words, &new[counted.clone()], &old[counted.clone()]);
        if !self.is_full {
            sums.exponents = worker.alone.exponents(words, &old[counted]);
        }
        if raw > 0 {
            let (new, old) = (&new[coded.clone()], &old[coded]);
            let len = worker.sizer.coded_len(dtype, row_len, new, Some(old));
            sums.coded_against = Coded { raw, coded: len.map_err(Failure::New)? };
        }
        Ok(())
    }

    /// The figures of a tensor.
    fn measured(&self, i: usize, sums: &Sums) -> Measured {
        let tensor = &self.new.tensors[i];
        let words = Words::of(tensor.info.dtype);
        let values = tensor.len() / words.width as u64;
        let mut measured = Measured::default();
        if self.is_full {
            measured.alone = Some(Alone::new(words, &sums.alone, sums.coded));
            let counts = sums.alone.whole.exponents().into_iter().enumerate();
            measured.exponents =
                counts.filter(|(_, n)| *n > 0).map(|(e, n)| (e as u32, n)).collect();
        }
        if let (Some((number, ..)), Some(base)) = (self.base_of(i), self.base) {
            let mut exponents = sums.exponents.clone();
            if self.is_full {
                exponents = vec![0; words.heads() / 2];
                let known = base.exponents.get(number).map_or(&[][..], Vec::as_slice);
                known.iter().for_each(|&(exponent, n)| exponents[exponent as usize] = n);
            }
            let alone = measured.alone.as_ref().or(self.alone.get(i).and_then(Option::as_ref));
            let alone = alone.and_then(|alone| alone.coded);
            let (tally, coded) = (&sums.change, sums.coded_against);
            measured.change = Some(Change::new(words, values, tally, &exponents, coded, alone));
        }
        measured
    }
}

impl Sums {
    /// Nothing yet of a tensor.
    fn new(tensor: &OpenTensor) -> Self {
        let words = Words::of(tensor.info.dtype);
        Self {
            pieces_left: Piece::count(tensor.len()),
            alone: AloneTally::new(words),
            change: ChangeTally::new(words),
            exponents: vec![0; words.heads() / 2],
            coded: Coded::default(),
            coded_against: Coded::default(),
        }
    }

    /// Adds one piece.
    fn add(&mut self, piece: &Self) {
        self.pieces_left -= 1;
        self.alone.add(&piece.alone);
        self.change.add(&piece.change);
        self.exponents.iter_mut().zip(&piece.exponents).for_each(|(sum, n)| *sum += n);
        self.coded.add(piece.coded);
        self.coded_against.add(piece.coded_against);
    }
}

/// A buffer as long as a range; the contents are arbitrary. It keeps its longest length, because
/// new memory costs a page fault for each 4 KiB.
fn sized<'a>(buffer: &'a mut Vec<u8>, range: &Range<u64>) -> &'a mut [u8] {
    let len = (range.end - range.start) as usize;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
