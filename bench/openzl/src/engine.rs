//! OpenZL as an engine: one tensor a call, or pieces of it. No checksums, newest format.

use std::ffi::{CStr, c_int};
use std::mem;

use lmc_bench::Result;
use lmc_bench::buffers::Set;
use lmc_engines::{Coded, Engine, LENGTH_LEN, Label, Pace, Sample};
use openzl_sys::*;

use crate::graphs::{self, Graph};

/// One graph. The pointers belong to it alone and live as long as it does.
pub struct OpenZl {
    graph: Graph,
    compressor: *mut ZL_Compressor,
    cctx: *mut ZL_CCtx,
    dctx: *mut ZL_DCtx,
    /// Bytes of a value.
    width: usize,
}

// SAFETY: nothing else has the pointers, and OpenZL's contexts belong to no thread.
unsafe impl Send for OpenZl {}

impl OpenZl {
    /// The engine for values of `width` bytes of a set.
    pub fn new(set: Set, graph: Graph, width: usize) -> Result<Self> {
        const PARAMETERS: [(ZL_CParam, c_int); 4] = [
            (ZL_CParam_stickyParameters, 1),
            (ZL_CParam_formatVersion, ZL_MAX_FORMAT_VERSION as c_int),
            (ZL_CParam_contentChecksum, ZL_TernaryParam_disable as c_int),
            (ZL_CParam_compressedChecksum, ZL_TernaryParam_disable as c_int),
        ];
        // SAFETY: the pointers are those that OpenZL has just made.
        unsafe {
            let (compressor, cctx) = (ZL_Compressor_create(), ZL_CCtx_create());
            let new = Self { graph, compressor, cctx, dctx: ZL_DCtx_create(), width };
            for (parameter, value) in PARAMETERS {
                new.coded_len(ZL_CCtx_setParameter(cctx, parameter, value))?;
            }
            graphs::select(compressor, set, graph)?;
            new.coded_len(ZL_CCtx_refCompressor(cctx, compressor))?;
            Ok(new)
        }
    }

    /// Codes one piece into the front of `coded`.
    fn compress_piece(&mut self, piece: &[u8], coded: &mut [u8]) -> Result<usize> {
        let (values, out) = (piece.as_ptr().cast(), coded.as_mut_ptr().cast());
        // SAFETY: the context is alive, and both slices as long as it is told; the input is one of
        // the buffer's tensors or starts whole values behind, so its values are aligned.
        unsafe {
            let input = ZL_TypedRef_createNumeric(values, self.width, piece.len() / self.width);
            let report = ZL_CCtx_compressTypedRef(self.cctx, out, coded.len(), input);
            ZL_TypedRef_free(input);
            self.coded_len(report)
        }
    }

    /// The length in a report of compressing, or its error.
    fn coded_len(&self, report: ZL_Report) -> Result<usize> {
        // SAFETY: the context is alive, and its text has an end.
        unsafe {
            if ZL_isError(report) == 0 {
                return Ok(ZL_validResult(report));
            }
            let text = CStr::from_ptr(ZL_CCtx_getErrorContextString(self.cctx, report));
            Err(text.to_string_lossy().into())
        }
    }

    fn decompress_piece(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let (from, to) = (coded.as_ptr().cast(), out.as_mut_ptr().cast());
        // SAFETY: the context is alive, both slices as long as it is told, and `out` as aligned as
        // the piece that was coded. The description is plain numbers.
        unsafe {
            let mut info = mem::zeroed();
            let (out_len, coded_len) = (out.len(), coded.len());
            let report =
                ZL_DCtx_decompressTyped(self.dctx, &mut info, to, out_len, from, coded_len);
            if ZL_isError(report) == 0 {
                return Ok(());
            }
            let text = CStr::from_ptr(ZL_DCtx_getErrorContextString(self.dctx, report));
            Err(text.to_string_lossy().into())
        }
    }
}

impl Drop for OpenZl {
    fn drop(&mut self) {
        // SAFETY: nothing else has the pointers, and nothing uses them later.
        unsafe {
            ZL_CCtx_free(self.cctx);
            ZL_DCtx_free(self.dctx);
            ZL_Compressor_free(self.compressor);
        }
    }
}

impl Engine for OpenZl {
    fn label(&self) -> Label {
        let level = self.graph.name().into();
        Label { engine: "openzl", level, grouped: false, base: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        coded.index.clear();
        coded.len = 0;
        let piece_len = self.graph.values_max().saturating_mul(self.width);
        let mut tensors = sample.bytes;
        for tensor in sample.tensors {
            let (tensor, after) = tensors.split_at(tensor.len.min(tensors.len()));
            for piece in tensor.chunks(piece_len) {
                let len = self.compress_piece(piece, &mut coded.bytes[coded.len..])?;
                coded.index.extend([piece.len(), len]);
                coded.len += len;
            }
            tensors = after;
        }
        coded.extra_len = LENGTH_LEN * coded.index.len() / 2;
        Ok(())
    }

    fn decompress(&mut self, coded: &Coded, _base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let (mut bytes, mut out) = (coded.bytes.as_slice(), out);
        // Original and coded bytes of each call.
        for &[raw_len, len] in coded.index.as_chunks().0 {
            let (piece, after) = out.split_at_mut(raw_len);
            self.decompress_piece(&bytes[..len], piece)?;
            (bytes, out) = (&bytes[len..], after);
        }
        Ok(())
    }
}
