//! Programs that ask for more than they are worth: each ends in an error, soon, and without much memory or stack.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests fail by panicking")]

use indexmap::IndexMap;
use std::fmt::Write as _;
use tallow_format::Config;
use tallow_frontends::program::{Code, Language, Options, compile};

/// The codes of everything that is wrong with a program.
fn codes(source: &str) -> Vec<Code> {
    let config = Config::parse("model_type = \"own\"\n[architecture]\nn = 4\n").unwrap();
    let index: IndexMap<String, Vec<u64>> = IndexMap::new();
    match compile(source, Language::Rs, "limits.rs", &config, Some(&index), Options::default()) {
        Ok(_) => Vec::new(),
        Err(diagnostics) => {
            let text = diagnostics.to_string();
            assert!(text.len() < 10_000, "{} bytes", text.len());
            diagnostics.list.iter().map(|d| d.code).collect()
        }
    }
}

/// `forward` around a body.
fn program(items: &str, body: &str) -> String {
    format!("{items}\npub fn forward(x: &Tensor, config: &Config) -> Tensor {{\n{body}\nx.reshape([4])\n}}\n")
}

#[test]
fn what_has_no_end_ends() {
    for (items, body, code) in [
        ("", "loop {}", Code::Steps),
        ("", "let mut i = 0; while i >= 0 { i += 1; }", Code::Steps),
        ("", "for i in 0.. { let y = i; }", Code::Steps),
        ("", "let n: usize = (0..).map(|i| i * 0).sum();", Code::Steps),
        ("", "let n = std::iter::repeat(1).filter(|i| *i > 1).next();", Code::Steps),
        ("fn f(n: u32) -> u32 { f(n + 1) }", "let y = f(0);", Code::CallDepth),
        ("fn f(n: u32) -> u32 { g(n) } fn g(n: u32) -> u32 { f(n) }", "let y = f(0);", Code::CallDepth),
        ("const A: usize = B; const B: usize = A;", "let y = A;", Code::CallDepth),
        (
            "",
            "let f = |n: u32| n; let g = |n: u32| f(f(n)); let y: Vec<u32> = (0..u32::MAX).map(g).collect();",
            Code::Steps,
        ),
    ] {
        assert_eq!(codes(&program(items, body)), [code], "{body}");
    }
}

#[test]
fn what_grows_without_bound_ends() {
    for body in [
        "let v = vec![0; 1 << 40];",
        "let mut s = String::from(\"ab\"); loop { s = format!(\"{s}{s}\"); }",
        "let mut s = String::from(\"ab\"); loop { s = s.repeat(2); }",
        "let mut v = vec![1]; loop { let w = v.clone(); v.extend(w); }",
        "let v: Vec<usize> = (0..1 << 40).collect();",
        "let s = format!(\"{:>99999999999}\", 1);",
        "let mut v = vec![]; loop { v.push(vec![0; 1000000]); }",
        "let w = \"ab\".repeat(1 << 50);",
    ] {
        let found = codes(&program("", body));
        let limits =
            [Code::Memory, Code::Steps, Code::Literal, Code::Syntax, Code::NotInLanguage, Code::Type, Code::Arithmetic];
        assert!(found.len() == 1 && limits.contains(&found[0]), "{body}: {found:?}");
    }
}

#[test]
fn values_inside_each_other_are_dropped_without_recursion() {
    for body in [
        "let mut v = vec![0]; for i in 0..1000000 { v = vec![v]; }",
        "let mut v = Some(0); for i in 0..1000000 { v = Some(v); }",
        "let mut v = (0, 1); for i in 0..1000000 { v = (v, 1); }",
        "let mut f = |n: u32| n; for i in 0..300000 { let g = f; f = |n: u32| g(n); }",
    ] {
        assert_eq!(codes(&program("", body)), [], "{body}");
    }
    // Comparing, printing and calling go inside, and stop.
    for (body, code) in [
        ("let mut v = vec![0]; for i in 0..100000 { v = vec![v]; } let w = v.clone(); assert!(v == w);", Code::Nesting),
        ("let mut v = vec![0]; for i in 0..100000 { v = vec![v]; } let s = format!(\"{v:?}\");", Code::Nesting),
        ("let mut f = |n: u32| n; for i in 0..100000 { let g = f; f = |n: u32| g(n); } let y = f(1);", Code::CallDepth),
    ] {
        assert_eq!(codes(&program("", body)), [code], "{body}");
    }
}

#[test]
fn deep_expressions_inside_deep_calls_have_a_limit() {
    // 5,000 operators around each of the calls.
    let mut sum = String::from("n");
    for _ in 0..5000 {
        sum.push_str(" + 1");
    }
    let f = format!("fn f(n: u32) -> u32 {{ if n > 100 {{ return n; }} f({sum}) + {sum} }}");
    assert_eq!(codes(&program(&f, "let y = f(0);")), []);
    let g = format!("fn g(n: u64) -> u64 {{ {} g(n + 1){} }}", "(".repeat(200), " + 1)".repeat(200));
    assert_eq!(codes(&program(&g, "let y = g(0);")), [Code::CallDepth]);
    let mut h = String::from("fn h(n: u64) -> u64 { h(n)");
    for _ in 0..9000 {
        h.push_str(" + 1");
    }
    h.push_str(" }");
    assert_eq!(codes(&program(&h, "let y = h(0);")), [Code::CallDepth]);
    let mut chain = String::from("let y = x.reshape([4])");
    for _ in 0..9000 {
        chain.push_str(".add(1)");
    }
    chain.push(';');
    assert_eq!(codes(&program("", &chain)), []);
}

#[test]
fn many_mistakes_are_reported_together_and_not_all() {
    let mut body = String::new();
    for i in 0..500 {
        let _ = writeln!(body, "let v{i} = missing{i};");
    }
    let found = codes(&program("", &body));
    assert!((24..=100).contains(&found.len()) && found.iter().all(|c| *c == Code::UnknownName), "{}", found.len());
    // One mistake in a loop is one mistake.
    assert_eq!(codes(&program("", "for i in 0..1000 { let y = missing; let z = y + 1; }")), [Code::UnknownName]);
}
