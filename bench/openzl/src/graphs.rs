//! OpenZL's graphs for each set: floats are taken apart, one stream is coded and the rest stored.

use std::ptr;

use lmc_bench::Result;
use lmc_bench::buffers::Set;
use openzl_sys::*;

/// How a buffer is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Graph {
    /// `ZL_GRAPH_HUFFMAN`, the default.
    Huffman,
    /// `ZL_GRAPH_FSE`.
    Fse,
    /// `ZL_GRAPH_HUFFMAN_PIVCO`.
    Pivco,
    /// A graph of our own: the PivCo node on the whole stream of a call, one table for all of it.
    Pivco1,
    /// As `Pivco`, with the bytes of sign and fraction in planes that are coded too.
    Planes,
}

/// The PivCo node, which is not public: the 31st behind the public ones in OpenZL 0.3.0.
const PIVCO_NODE: u32 = ZL_StandardNodeID_public_end + 31;

impl Graph {
    /// The graphs for a set. The sign of adam-v is constant, so that coding its byte saves a bit.
    pub fn of_set(set: Set) -> Vec<Self> {
        let mut graphs = vec![Self::Huffman, Self::Fse, Self::Pivco, Self::Pivco1];
        graphs.extend((set == Set::AdamV).then_some(Self::Planes));
        graphs
    }

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Huffman => "huffman",
            Self::Fse => "fse",
            Self::Pivco => "pivco",
            Self::Pivco1 => "pivco1",
            Self::Planes => "planes",
        }
    }

    /// Values of a call at most. The public PivCo graph cuts streams of 100,000 bytes or more into
    /// pieces of 32 KiB, with a table each; just below is where it is smallest.
    pub fn values_max(self) -> usize {
        match self {
            Self::Pivco | Self::Planes => 95 << 10,
            Self::Huffman | Self::Fse | Self::Pivco1 => usize::MAX,
        }
    }
}

/// Makes the graph for `set` the one that `compressor` starts with.
///
/// # Safety
/// `compressor` is one of OpenZL's, and alive.
pub unsafe fn select(compressor: *mut ZL_Compressor, set: Set, graph: Graph) -> Result<()> {
    let store = public(ZL_StandardGraphID_store);
    // SAFETY: the compressor is alive, and every list of successors as long as it says.
    let is_error = unsafe {
        let coded = match graph {
            Graph::Huffman => public(ZL_StandardGraphID_huffman),
            Graph::Fse => public(ZL_StandardGraphID_fse),
            Graph::Pivco | Graph::Planes => public(ZL_StandardGraphID_huffman_pivco),
            Graph::Pivco1 => {
                let weights = public(ZL_StandardGraphID_bitpack);
                behind(compressor, PIVCO_NODE, &[weights, store])
            }
        };
        let fraction = match graph {
            Graph::Planes => ZL_Compressor_registerTransposeSplitGraph(compressor, coded),
            _ => store,
        };
        let float = |node| behind(compressor, node, &[fraction, coded]);
        let start = match set {
            Set::Bf16 => float(ZL_StandardNodeID_bfloat16_deconstruct),
            Set::F32 | Set::AdamM | Set::AdamV => float(ZL_StandardNodeID_float32_deconstruct),
            Set::F16 => top_byte(compressor, [store, coded]),
            Set::Fp8 => behind(compressor, ZL_StandardNodeID_convert_num_to_serial_le, &[coded]),
        };
        ZL_isError(ZL_Compressor_selectStartingGraphID(compressor, start))
    };
    if is_error != 0 {
        return Err(format!("OpenZL does not take the graph {graph:?} on {set}").into());
    }
    Ok(())
}

/// Values of two bytes in planes, of which the first successor gets the low one and the second the
/// top one. A static graph could only send both to the same.
///
/// # Safety
/// `compressor` is alive.
unsafe fn top_byte(compressor: *mut ZL_Compressor, successors: [ZL_GraphID; 2]) -> ZL_GraphID {
    // SAFETY: OpenZL copies the description and what it points to. Zeroes are null pointers and
    // functions that are not there, which it allows in all other fields. The node makes structs of
    // numbers, as `split` takes them.
    unsafe {
        let description = ZL_FunctionGraphDesc {
            name: c"low byte, top byte".as_ptr(),
            graph_f: Some(split),
            inputTypeMasks: &ZL_Type_struct,
            nbInputs: 1,
            customGraphs: successors.as_ptr(),
            nbCustomGraphs: successors.len(),
            ..std::mem::zeroed()
        };
        let planes = ZL_Compressor_registerFunctionGraph(compressor, &description);
        behind(compressor, ZL_StandardNodeID_convert_num_to_struct_le, &[planes])
    }
}

/// Sends each byte plane of the input to the successor of its place.
///
/// # Safety
/// OpenZL calls it, with one edge of values that have as many bytes as there are successors.
unsafe extern "C" fn split(graph: *mut ZL_Graph, edges: *mut *mut ZL_Edge, _: usize) -> ZL_Report {
    // SAFETY: edges and successors live as long as the call, and are read only within their counts.
    unsafe {
        let mut error: ZL_Error = std::mem::zeroed();
        let planes = ZL_Edge_runTransposeSplit(*edges, graph);
        let planes = ZL_Result_ZL_EdgeList_extract(planes, ptr::from_mut(&mut error));
        let successors = ZL_Graph_getCustomGraphs(graph);
        if error._code != 0 || planes.field_2.nbEdges != successors.nbGraphIDs {
            return ZL_returnError(ZL_ErrorCode_GENERIC);
        }
        for i in 0..successors.nbGraphIDs {
            let (plane, successor) = (*planes.field_1.edges.add(i), *successors.graphids.add(i));
            let done = ZL_Edge_setDestination(plane, successor);
            if ZL_isError(done) != 0 {
                return done;
            }
        }
        ZL_returnSuccess()
    }
}

/// A graph of a node and a successor for each of its streams.
///
/// # Safety
/// `compressor` is alive.
unsafe fn behind(
    compressor: *mut ZL_Compressor,
    nid: u32,
    successors: &[ZL_GraphID],
) -> ZL_GraphID {
    let (graphs, count) = (successors.as_ptr(), successors.len());
    // SAFETY: the list has the length that is given; OpenZL checks the rest.
    unsafe {
        ZL_Compressor_registerStaticGraph_fromNode(compressor, ZL_NodeID { nid }, graphs, count)
    }
}

fn public(gid: ZL_StandardGraphID) -> ZL_GraphID {
    ZL_GraphID { gid }
}
