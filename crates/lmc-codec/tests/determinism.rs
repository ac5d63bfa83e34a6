//! Every instruction set writes the same bytes and reads what any other wrote.

use crate::common::{LEVELS, check, encode, tensor};
use lmc_codec::{Dtype, Isa, TensorSpec};
use lmc_testkit::data::Kind;

/// All types and kinds, whole tensors, written by each set and read by each.
#[test]
fn instruction_sets_agree() {
    for dtype in Dtype::ALL {
        for kind in Kind::ALL {
            let bytes = tensor(dtype, kind, 150_001, 13);
            for level in LEVELS {
                let spec = TensorSpec { dtype, row_len: 48 };
                let wanted = encode(Isa::PORTABLE, &spec, level, &bytes, None);
                for isa in Isa::available() {
                    let coded = encode(isa, &spec, level, &bytes, None);
                    let what = format!("{dtype:?} {kind:?} {level:?} {isa:?}");
                    assert!(coded.shared == wanted.shared, "{what} shares another recipe");
                    assert!(coded.blocks == wanted.blocks, "{what} writes other bytes");
                    check(isa, &wanted, &what);
                }
            }
        }
    }
}
