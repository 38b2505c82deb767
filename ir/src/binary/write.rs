//! Writing the binary form.

use super::{HintForm, RawGraph};

impl RawGraph {
    /// The bytes: for a graph that was read, the same ones. In the hint-byte form hints above 4
    /// cannot be written and are left out.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 * self.nodes.len());
        count(self.nodes.len(), &mut out);
        for node in &self.nodes {
            out.extend_from_slice(&node.id.to_le_bytes());
            out.extend_from_slice(&node.op.tag().to_le_bytes());
            node.op.write_payload(&mut out);
            strings(&node.inputs, &mut out);
            strings(&node.outputs, &mut out);
            match (self.hints, node.hint) {
                (_, None) => out.push(0),
                (HintForm::Flagged, Some(hint)) => out.extend_from_slice(&[1, hint]),
                (HintForm::Byte, Some(hint)) => out.push(if hint <= 4 { hint } else { 0 }),
            }
        }
        if let Some(interface) = &self.interface {
            count(interface.inputs.len(), &mut out);
            for input in &interface.inputs {
                string(&input.name, &mut out);
                count(input.dims.len(), &mut out);
                for dim in &input.dims {
                    out.extend_from_slice(&dim.to_le_bytes());
                }
                out.push(input.dtype.tag());
                match input.place {
                    None => out.push(0),
                    Some((offset, size)) => {
                        out.push(1);
                        out.extend_from_slice(&offset.to_le_bytes());
                        out.extend_from_slice(&size.to_le_bytes());
                    }
                }
            }
            strings(&interface.outputs, &mut out);
        }
        out
    }
}

fn strings(items: &[String], out: &mut Vec<u8>) {
    count(items.len(), out);
    for item in items {
        string(item, out);
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    count(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// A count; lists of over 2³² items do not fit in memory beside their graph.
fn count(n: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}
