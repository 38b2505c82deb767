//! A node of the binary form as a statement, for errors about it.

use super::RawNode;
use crate::TensorType;
use crate::text::{name, snippet};

/// What `node` says as a statement of the text form, with the types of what it reads, and a caret below
/// the first of them that `message` speaks of, else below the operation.
pub(super) fn statement(node: &RawNode, types: &[TensorType], message: &str) -> String {
    let mut line = String::new();
    let label = |text: &str, line: &mut String| {
        line.push('%');
        name(line, text);
    };
    for (i, output) in node.outputs.iter().enumerate() {
        line.push_str(if i > 0 { ", " } else { "" });
        label(output, &mut line);
    }
    line.push_str(" = ");
    let info = node.op.info();
    let at = line.len();
    line.push_str(info.name);
    let mut mark = at..line.len();
    line.push('(');
    // The operand that the message names, as `W has …` names `W`.
    let form = info.form(types.len()).unwrap_or_default();
    let named = form.split_whitespace().position(|operand| {
        let operand = operand.trim_end_matches('?');
        let mut words = message.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        // The article is no operand.
        operand != "a" && words.any(|word| word == operand)
    });
    for (i, (input, ty)) in node.inputs.iter().zip(types).enumerate() {
        line.push_str(if i > 0 { ", " } else { "" });
        let at = line.len();
        label(input, &mut line);
        line.push_str(&format!(": {ty}"));
        if named == Some(i) {
            mark = at..line.len();
        }
    }
    line.push(')');
    let attributes = node.op.attributes();
    if !attributes.is_empty() {
        line.push_str(&format!(" {{ {attributes} }}"));
    }
    snippet(&line, mark, "    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Shape};

    #[test]
    fn the_caret_stands_below_what_the_message_names() {
        let node = RawNode {
            id: 3,
            op: Op::Matmul,
            inputs: vec!["x".into(), "odd name".into()],
            outputs: vec!["y".into()],
            hint: None,
        };
        let types = [TensorType::f32(Shape::fixed(&[4])), TensorType::f32(Shape::fixed(&[2, 3]))];
        let text = statement(&node, &types, "W has 3 columns, x has 4");
        assert_eq!(text, "    %y = Matmul(%x: f32[4], %\"odd name\": f32[2, 3])\n                ^^^^^^^^^^");
        assert!(statement(&node, &types, "nothing fits").ends_with("\n         ^^^^^^"));
    }
}
