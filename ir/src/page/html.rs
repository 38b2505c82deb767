//! The file: assets and data put together.

const CSS: &str = include_str!("assets/page.css");
const BODY: &str = include_str!("assets/body.html");
/// In the order in which they need each other.
const SCRIPTS: [&str; 12] = [
    include_str!("vendor/dagre.min.js"),
    include_str!("assets/model.js"),
    include_str!("assets/fold.js"),
    include_str!("assets/layout.js"),
    include_str!("assets/scene.js"),
    include_str!("assets/paint.js"),
    include_str!("assets/input.js"),
    include_str!("assets/view.js"),
    include_str!("assets/panel.js"),
    include_str!("assets/search.js"),
    include_str!("assets/diff.js"),
    include_str!("assets/main.js"),
];
/// Scripts and styles of the file itself, pictures in it, and nothing else from anywhere.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// A page of this title with these data.
pub(super) fn page(title: &str, data: &str) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n"));
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.push_str(&format!("<title>{}</title>\n<style>\n{CSS}</style>\n</head>\n", text(title)));
    out.push_str(BODY);
    out.push_str("<script type=\"application/json\" id=\"data\">");
    embed(data, &mut out);
    out.push_str("</script>\n");
    for script in SCRIPTS {
        // A map of the library's source would be looked for beside the page.
        let script = script.split("//# sourceMappingURL").next().unwrap_or_default();
        out.push_str("<script>\n");
        out.push_str(script.trim_end());
        out.push_str("\n</script>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// JSON that stands in a script element: no `<`, so that no name in it closes the element or opens a
/// comment, and none of the characters that end lines in some languages and not in others.
fn embed(json: &str, out: &mut String) {
    out.reserve(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        out.push_str(&rest[..at]);
        let c = rest[at..].chars().next().unwrap_or_default();
        out.push_str(&format!("\\u{:04x}", c as u32));
        rest = &rest[at + c.len_utf8()..];
    }
    out.push_str(rest);
}

/// Text in an element or an attribute.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
