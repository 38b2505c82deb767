//! The matrices of a layer's experts as one tensor: files hold one for each expert, graphs take `[experts, rows, columns]`.

use std::path::Path;

use indexmap::IndexMap;

use crate::error::{ImportError, Result};
use crate::source::SourceTensor;

/// The name of a tensor of one expert in parts: `model.layers.0.mlp.experts`, its number, `gate_proj.weight`.
fn parts(name: &str) -> Option<(&str, u64, &str)> {
    let at = name.find(".experts.")? + ".experts".len();
    let (number, rest) = name[at + 1..].split_once('.')?;
    // A number in its only spelling, so that two names cannot mean one expert.
    let number = number.parse::<u64>().ok().filter(|n| n.to_string() == number)?;
    Some((&name[..at], number, rest))
}

/// Puts tensors that differ by the number of their expert alone together, in the place of the first of them: nothing is
/// read, the result has the bytes of each as a piece.
///
/// # Errors
/// An expert that is missing among others, or has another shape or type than they.
pub fn stacked(tensors: Vec<SourceTensor>, path: &Path) -> Result<Vec<SourceTensor>> {
    let mut out: IndexMap<String, Vec<(u64, SourceTensor)>> = IndexMap::new();
    for tensor in tensors {
        let (name, number) = match parts(&tensor.name) {
            Some((block, number, rest)) => (format!("{block}.{rest}"), number),
            None => (tensor.name.clone(), 0),
        };
        out.entry(name).or_default().push((number, tensor));
    }
    out.into_iter().map(|(name, experts)| one(name, experts, path)).collect()
}

/// One tensor of what stands under a name.
fn one(name: String, mut experts: Vec<(u64, SourceTensor)>, path: &Path) -> Result<SourceTensor> {
    experts.sort_by_key(|(number, _)| *number);
    let fail = |tensor: &str, cause: String| {
        let cure = "Check that this is the whole model, all of its shards, and that its experts are stored alike.";
        Err(ImportError::malformed(path, format!("tensor `{tensor}`"), cause, cure))
    };
    for (wanted, (number, tensor)) in (0..).zip(&experts) {
        if let Some((block, _, rest)) = parts(&tensor.name).filter(|_| *number != wanted) {
            let last = experts.len() as u64 - 1;
            let cause = match wanted < *number {
                true => format!("it is missing, and there is an expert {number}"),
                false => format!("there are two of expert {number}, and {last} other ones"),
            };
            return fail(&format!("{block}.{wanted}.{rest}"), cause);
        }
    }
    let count = experts.len() as u64;
    let mut rest = experts.into_iter().map(|(_, tensor)| tensor);
    let Some(mut all) = rest.next() else { return fail(&name, "it has no experts".into()) };
    let Some((block, _, part)) = parts(&all.name) else {
        return match rest.next() {
            None => Ok(all),
            Some(_) => fail(&name, "it stands beside tensors of single experts".into()),
        };
    };
    all.source_name = match parts(&all.source_name) {
        Some((block, _, part)) => format!("{block}.*.{part}"),
        None => format!("{block}.*.{part}"),
    };
    for other in rest {
        if other.shape != all.shape || other.ty != all.ty {
            let cause = format!(
                "it has shape {:?} in {}, and the first expert {:?} in {}",
                other.shape,
                other.ty.name(),
                all.shape,
                all.ty.name()
            );
            return fail(&other.name, cause);
        }
        all.pieces.extend(other.pieces);
    }
    all.shape.insert(0, count);
    all.name = name;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Piece, RowOrder};
    use tallow_format::encoding::gguf::GgmlType;

    fn tensor(name: &str, shape: &[u64]) -> SourceTensor {
        SourceTensor {
            name: name.into(),
            source_name: name.into(),
            shape: shape.to_vec(),
            ty: GgmlType::F32,
            shift: 0.0,
            order: RowOrder::Plain,
            pieces: vec![Piece { file: 0, bytes: 0..4 }],
        }
    }

    #[test]
    fn experts_of_a_layer_become_one_tensor_in_the_order_of_their_numbers() {
        let mut list: Vec<_> = [10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9]
            .iter()
            .map(|n| {
                let mut t = tensor(&format!("model.layers.4.mlp.experts.{n}.up_proj.weight"), &[3, 2]);
                t.pieces[0].bytes = n * 24..n * 24 + 24;
                t
            })
            .collect();
        list.insert(0, tensor("a", &[1]));
        list.push(tensor("model.layers.4.mlp.shared_expert.up_proj.weight", &[1]));
        let out = stacked(list, Path::new("m")).unwrap();
        let names: Vec<_> = out.iter().map(|t| t.name.as_str()).collect();
        let stack = "model.layers.4.mlp.experts.up_proj.weight";
        assert_eq!(names, ["a", stack, "model.layers.4.mlp.shared_expert.up_proj.weight"]);
        assert_eq!(out[1].shape, [11, 3, 2]);
        assert_eq!(out[1].source_name, "model.layers.4.mlp.experts.*.up_proj.weight");
        let starts: Vec<_> = out[1].pieces.iter().map(|p| p.bytes.start / 24).collect();
        assert_eq!(starts, (0..11).collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_belong_together_is_named() {
        let name = |n: &str| format!("l.experts.{n}.w1.weight");
        let error = |list: Vec<SourceTensor>| stacked(list, Path::new("m")).unwrap_err().to_string();
        let hole = error(vec![tensor(&name("0"), &[1]), tensor(&name("2"), &[1])]);
        assert!(hole.contains("tensor `l.experts.1.w1.weight`") && hole.contains("it is missing"), "{hole}");
        let odd = error(vec![tensor(&name("0"), &[1]), tensor(&name("1"), &[2])]);
        assert!(odd.contains("tensor `l.experts.1.w1.weight`") && odd.contains("shape [2]"), "{odd}");
        let both = error(vec![tensor("l.experts.w1.weight", &[1]), tensor(&name("0"), &[1])]);
        assert!(both.contains("`l.experts"), "{both}");
        // No number of an expert.
        assert_eq!(stacked(vec![tensor(&name("01"), &[1])], Path::new("m")).unwrap()[0].name, name("01"));
    }
}
