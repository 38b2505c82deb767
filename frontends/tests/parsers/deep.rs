//! Programs that nest, or go on, far past the limits in every way that the grammars have: each gives an error or a
//! tree, and soon.

use std::time::{Duration, Instant};
use tallow_frontends::program::{Code, Diagnostic, Language, Tree, parse};

/// How often the repeated part stands.
const N: usize = 100_000;

/// The longest that one program may take: most take a thousandth of it, and machines that are busy are slow.
const SOON: Duration = Duration::from_secs(60);

/// `head`, many times `open`, `middle`, as many times `close`, and `tail`.
fn nest(head: &str, open: &str, middle: &str, close: &str, tail: &str, n: usize) -> String {
    format!("{head}{}{middle}{}{tail}", open.repeat(n), close.repeat(n))
}

fn timed(source: &str, language: Language) -> Result<Tree, Vec<Diagnostic>> {
    let begin = Instant::now();
    let out = parse(source, language);
    let start: String = source.chars().take(60).collect();
    assert!(begin.elapsed() < SOON, "{start}… takes {:?}", begin.elapsed());
    if std::env::var_os("TALLOW_TIMES").is_some() {
        let shown = out.as_ref().map(|t| t.exprs.len()).map_err(|e| e[0].message.clone());
        eprintln!("{:>6} ms  {start:?} {shown:?}", begin.elapsed().as_millis());
    }
    out
}

/// Ways to nest: what opens a level, what stands inside, what closes it.
const RS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("[", "1", "]"),
    ("{", "1", "}"),
    ("(1, ", "1", ")"),
    ("f(", "1", ")"),
    ("x.f(", "1", ")"),
    ("a[", "1", "]"),
    ("vec![", "1", "]"),
    ("format!(\"{}\", ", "1", ")"),
    ("S { a: ", "1", "}"),
    ("-", "1", ""),
    ("!", "1", ""),
    ("*", "1", ""),
    ("&", "1", ""),
    ("&&", "1", ""),
    ("&mut ", "1", ""),
    ("- -", "1", ""),
    ("-(", "1", ")"),
    ("return ", "1", ""),
    ("break ", "1", ""),
    ("'a: loop { break 'a ", "1", "}"),
    ("|a| ", "1", ""),
    ("|a, b| ", "1", ""),
    ("|a|-", "1", ""),
    ("|| ", "1", ""),
    ("move |a| ", "1", ""),
    ("|a: A<B, C>, b| a::<A, B>() + ", "1", ""),
    ("|(a, b)| { ", "1", "}"),
    ("|a| -> T { ", "1", "}"),
    ("a = ", "1", ""),
    ("a += ", "1", ""),
    ("a <<= ", "1", ""),
    ("..", "1", ""),
    ("1.. ", "1", ""),
    (".. ..=", "1", ""),
    ("if ", "a", "{}"),
    ("if a { ", "1", "}"),
    ("if a == b { 1 } else { ", "1", "}"),
    ("if a {} else if ", "a {}", ""),
    ("if let A = ", "1", "{}"),
    ("match ", "a", "{}"),
    ("match {a} { A => ", "1", "}"),
    ("match a { A if ", "a", "=> 1 }"),
    ("while ", "a", "{}"),
    ("while a { ", "1", "}"),
    ("for i in ", "a", "{}"),
    ("for S { a } in ", "a", "{}"),
    ("for i in a { ", "1", "}"),
    ("loop { ", "1", "}"),
    ("let a = ", "1", ";"),
    ("x == ", "1", ""),
    ("x && ", "1", ""),
    ("x || y && z == ", "1", ""),
    ("x - -", "1", ""),
    ("(x) + ", "1", ""),
    ("{1} - ", "1", ""),
    ("{1} | ", "1", ""),
    ("{} - |a| ", "1", ""),
    ("{ a } = ", "1", ""),
    ("f::<", "A", ">()"),
    ("A<", "1", ">"),
    ("a < b, ", "1", ""),
    ("a << ", "1", ""),
    ("a << b << c + ", "1", ""),
    ("1 as ", "u8", ""),
    ("<", "A", ">::b"),
    ("<A as B<", "A", ">>::c"),
    ("#[allow(x)] -", "1", ""),
    ("#[allow(x)] ", "1", ""),
    ("#[doc = ", "1", "]"),
    ("unsafe { ", "1", "}"),
    ("async move ", "1", ""),
    ("const { ", "1", "}"),
    ("const |a| ", "1", ""),
    ("static |a| ", "1", ""),
    ("yield ", "1", ""),
    ("try { ", "1", "}"),
    ("fn f() { ", "1", "}"),
    ("fn f() -> impl Fn(", "A", ")"),
    ("impl A { fn f() {", "1", "}}"),
    ("mod a { ", "", "}"),
    ("macro_rules! a { ", "", "}"),
    ("match a { ", "_ => 1", "}"),
    ("a::", "b", ""),
    ("'a: ", "loop {}", ""),
    ("\"", "", ""),
    ("'", "", ""),
    ("/*", "", "*/"),
    ("r#", "a", ""),
];

/// Ways to nest patterns.
const PATTERNS: &[(&str, &str, &str)] = &[
    ("(", "a", ")"),
    ("(a, ", "b", ")"),
    ("[", "a", "]"),
    ("&", "a", ""),
    ("& mut ", "a", ""),
    ("a @ ", "b", ""),
    ("S(", "a", ")"),
    ("S { a: ", "b", "}"),
    ("ref ", "a", ""),
    ("box ", "a", ""),
    ("A | ", "B", ""),
    ("-", "1", ""),
    ("..", "", ""),
    ("A::<", "B", ">"),
];

/// Ways to nest types.
const TYPES: &[(&str, &str, &str)] = &[
    ("(", "A", ")"),
    ("(A, ", "B", ")"),
    ("[", "A", "]"),
    ("[", "A", "; 1]"),
    ("[A; ", "1", "]"),
    ("&", "A", ""),
    ("&'a mut ", "A", ""),
    ("*const ", "A", ""),
    ("Vec<", "A", ">"),
    ("Vec<", "A", ""),
    ("Vec<A, B<C>, ", "A", ">"),
    ("A<B = ", "A", ">"),
    ("A<'a, ", "A", ">"),
    ("A<dyn B + ", "A", ">"),
    ("impl Fn(", "A", ")"),
    ("impl Fn() -> ", "A", ""),
    ("fn() -> ", "A", ""),
    ("fn(", "A", ")"),
    ("fn() -> A<", "A", ">"),
    ("A<fn(A) -> B, ", "A", ">"),
    ("for<'a> ", "A", ""),
    ("for<'a> fn(", "A", ")"),
    ("dyn ", "A", ""),
    ("impl ", "A", ""),
    ("<A as B<", "C", ">>::D"),
    ("<", "A", " as B>::C"),
    ("A + ", "B", ""),
    ("?", "A", ""),
    ("A::", "B", ""),
    ("A<{ ", "1", "}>"),
    ("A<-", "1", ">"),
    ("!", "A", ""),
];

/// Every way in every frame, closed and not, past the limits; and in the first frame, where `far`, [`N`] deep.
fn all(language: Language, ways: &[(&str, &str, &str)], frames: &[(&str, &str)], far: bool) {
    for (open, middle, close) in ways {
        for (i, (head, tail)) in frames.iter().enumerate() {
            for n in [300, 1500] {
                let _ = timed(&nest(head, open, middle, close, tail, n), language);
                let _ = timed(&nest(head, open, middle, "", tail, n), language);
                let _ = timed(&nest(head, open, "", "", "", n), language);
            }
            if far && i == 0 {
                let _ = timed(&nest(head, open, middle, close, tail, N), language);
            }
        }
    }
}

#[test]
fn rs_expressions() {
    all(Language::Rs, RS, &[("fn f() { let x = ", "; }"), ("fn f() { ", " }")], true);
}

#[test]
fn rs_expressions_elsewhere() {
    let frames =
        [("const A: B = ", ";"), ("fn f() { match a { A => ", " } }"), ("fn f() { assert!(a, \"{}\", ", "); }")];
    all(Language::Rs, RS, &frames, false);
}

#[test]
fn rs_patterns() {
    let frames = [("fn f() { let ", " = 1; }"), ("fn f() { match x { ", " => 1 } }"), ("fn f(", ": A) {}")];
    all(Language::Rs, PATTERNS, &frames, true);
    all(Language::Rs, PATTERNS, &[("fn f() { matches!(x, ", ") }"), ("fn f() { |", "| 1 }")], false);
}

#[test]
fn rs_types() {
    let frames = [("fn f(a: ", ") {}"), ("fn f() { let x: ", " = 1; }"), ("fn f() -> ", " {}"), ("struct A(", ");")];
    all(Language::Rs, TYPES, &frames, true);
    let frames = [("fn f() { 1 as ", " }"), ("fn f() { a::<", ">() }"), ("fn f<T: ", ">() {}"), ("impl A<", "> {}")];
    all(Language::Rs, TYPES, &frames, false);
}

#[test]
fn rs_items() {
    let ways =
        [("use a::", "b", ""), ("use a::{", "b", "}"), ("a::", "b", ""), ("pub(in a) ", "fn", ""), ("{", "", "}")];
    all(Language::Rs, &ways, &[("use ", ";"), ("", ""), ("pub ", "")], true);
}

/// Ways to nest in the other language.
const TRI: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("[", "1", "]"),
    ("{", "1", "}"),
    ("(1, ", "1", ")"),
    ("f(", "1", ")"),
    ("x.f(", "1", ")"),
    ("a[", "1", "]"),
    ("S { a: ", "1", "}"),
    ("-", "1", ""),
    ("!", "1", ""),
    ("*", "1", ""),
    ("&", "1", ""),
    ("&&", "1", ""),
    ("return ", "1", ""),
    ("break ", "1", ""),
    ("a = ", "1", ""),
    ("..", "1", ""),
    ("1.. ", "1", ""),
    ("if ", "a", "{}"),
    ("if a { ", "1", "}"),
    ("if a { 1 } else { ", "1", "}"),
    ("match ", "a", "{}"),
    ("match a { A => ", "1", "}"),
    ("match a { (", "A", ") => 1 }"),
    ("match a { A if ", "a", "=> 1 }"),
    ("while ", "a", "{}"),
    ("while a { ", "1", "}"),
    ("for i in ", "a", "{}"),
    ("for i in a { ", "1", "}"),
    ("for i in a bounded ", "1", "{}"),
    ("for (", "a", ") in b {}"),
    ("loop { ", "1", "}"),
    ("let a = ", "1", "\n"),
    ("let a: &", "A", ""),
    ("let a: [", "A", "; 1]"),
    ("let a: (", "A", ")"),
    ("let (", "a", ") = 1"),
    ("let ", "a", " = 1"),
    ("x == ", "1", ""),
    ("x < y ", "1", ""),
    ("x || y && z == ", "1", ""),
    ("x - -", "1", ""),
    ("fn f() { ", "1", "}\n"),
    ("\n(", "1", ")"),
    ("\n-", "1", ""),
    ("a::", "b", ""),
    ("\"", "", ""),
    ("'", "", ""),
    ("/*", "", "*/"),
    ("“", "", ""),
];

#[test]
fn tri_programs() {
    let frames = [
        ("fn f() { let x = ", " }"),
        ("fn f() {\n", "\n}"),
        ("const A: Field = ", "\n"),
        ("fn f(a: ", ") {}"),
        ("struct A { a: ", " }"),
        ("", ""),
    ];
    all(Language::Tri, TRI, &frames, true);
}

/// Chains, and how many links of them are a tree: what repeats stands after a first value.
const CHAINS: &[&str] = &[" + x", " - x * 2", " && x", " == 1 || x", ".f(x)", ".a", "[0]", "(x)", ".a.b(1)[2]"];

#[test]
fn chains_have_ten_thousand_links() {
    for (language, more) in [(Language::Rs, [" as u32", "?", ".await"].as_slice()), (Language::Tri, &[])] {
        for link in CHAINS.iter().chain(more) {
            for parts in [2000, N] {
                let source = format!("fn f() {{ let y = x{}; }}", link.repeat(parts));
                let read = timed(&source, language);
                match parts {
                    N => assert!(read.unwrap_err().iter().any(|d| d.code == Code::Nesting), "{link}"),
                    _ if link == &".await" => assert_eq!(read.unwrap_err()[0].code, Code::NotInLanguage),
                    _ => assert!(read.unwrap().exprs.len() > parts, "{link}"),
                }
            }
        }
    }
    for (language, link) in
        [(Language::Rs, "+ x"), (Language::Rs, ".f(x)"), (Language::Tri, "+ x"), (Language::Tri, ".f(x)")]
    {
        let source = |n: usize| format!("fn f() {{ let y = x{}; }}", link.repeat(n));
        assert!(timed(&source(10_000), language).is_ok());
        assert_eq!(timed(&source(10_001), language).unwrap_err()[0].code, Code::Nesting);
    }
}

#[test]
fn else_if_goes_on_ten_thousand_times() {
    for language in [Language::Rs, Language::Tri] {
        let source = |n: usize| format!("fn f() {{ if a {{ 1 }} {} else {{ 2 }} }}", "else if a { 1 }".repeat(n));
        assert!(timed(&source(9_999), language).is_ok(), "{language:?}");
        assert_eq!(timed(&source(N), language).unwrap_err()[0].code, Code::Nesting);
    }
}

#[test]
fn nesting_is_256_deep() {
    for (language, open, close) in [
        (Language::Rs, "(", ")"),
        (Language::Rs, "-", ""),
        (Language::Rs, "&", ""),
        (Language::Rs, "{", "}"),
        (Language::Rs, "[", "]"),
        (Language::Tri, "(", ")"),
        (Language::Tri, "-", ""),
        (Language::Tri, "{", "}"),
        (Language::Tri, "[", "]"),
    ] {
        let source = |n: usize| nest("fn f() { let y = ", open, "x", close, "; }", n);
        assert!(timed(&source(200), language).is_ok(), "{language:?} {open}");
        let errors = timed(&source(257), language).unwrap_err();
        assert_eq!(errors[0].code, Code::Nesting, "{language:?} {open}: {errors:?}");
    }
}

/// Many mistakes, each of which asks where to go on.
#[test]
fn mistakes_are_passed_over_soon() {
    let lines = [
        "let a\n",
        "}\n",
        "{\n",
        "let a b\n",
        "f(\n",
        ")\n",
        "fn f(\n",
        "fn f() {\n",
        "const\n",
        "a b\n",
        "let x = [\n",
    ];
    for open in ["", "[", "{", "(", "[{", "{["] {
        for line in lines {
            let head = format!("fn f() {{\n{}", open.repeat(20_000));
            assert!(timed(&format!("{head}{{ {}", line.repeat(10_000)), Language::Tri).is_err());
            assert!(timed(&format!("{head}{}", line.repeat(10_000)), Language::Tri).is_err());
        }
    }
    for odd in ["'a ", "“", "“a", "\"\n\\", "\\", "/*", "/* */", "é ", "`"] {
        assert!(timed(&odd.repeat(200_000), Language::Tri).is_err());
        let _ = timed(&odd.repeat(200_000), Language::Rs);
    }
    for item in
        ["fn f() {}\n", "struct A { a: B, a: B }\n", "const A: B = 1;\n", "impl A { fn f() {} }\n", "use a::b;\n"]
    {
        assert!(timed(&item.repeat(10_000), Language::Rs).is_err());
        assert!(timed(&item.repeat(10_000), Language::Tri).is_err());
    }
    let many = |n: usize| (0..n).map(|i| format!("a{i}")).collect::<Vec<_>>();
    let fields: Vec<String> = many(20_000).iter().map(|f| format!("{f}: Field")).collect();
    let holes: String = many(20_000).iter().map(|f| format!("{{{f}}}")).collect();
    let args: Vec<String> = many(20_000).iter().map(|f| format!("{f} = 1")).collect();
    for language in [Language::Rs, Language::Tri] {
        assert!(timed(&format!("fn f({}) {{}}", fields.join(", ")), language).is_ok());
        assert!(timed(&format!("struct S {{ {} }}", fields.join(", ")), language).is_ok());
    }
    assert!(timed(&format!("fn f() {{ format!(\"{holes}\", {}); }}", args.join(", ")), Language::Rs).is_ok());
}

/// Long programs that do not nest are programs.
#[test]
fn long_programs_are_read() {
    let lines = [
        ("let a = b < c;\n", 20_000),
        ("if a < b { c = 1; }\n", 20_000),
        ("for i in 0..n { f(i); }\n", 20_000),
        ("a = -b - c * d;\n", 20_000),
        ("f(a, b, c);\n", 20_000),
    ];
    for language in [Language::Rs, Language::Tri] {
        for (line, n) in lines {
            let source = format!("fn f() {{\n{}}}\n", line.repeat(n));
            if let Err(errors) = timed(&source, language) {
                panic!("{language:?} {line}: {}", errors[0].message);
            }
        }
    }
    for list in
        ["a[0] < b, ", "-1, ", "x.f() < y, ", "|a| a + 1, ", "(a, b), ", "f(a = b), ", "if a { 1 } else { 2 }, "]
    {
        let source = format!("fn f() {{ let x = [{}]; }}\n", list.repeat(20_000));
        if let Err(errors) = timed(&source, Language::Rs) {
            panic!("{list}: {}", errors[0].message);
        }
    }
    let arms = "(A, B) if a < b => { return 1; }\n [x, ..] => x = 1,\n S { a } if b => |x| x + 1, A | B => {}\n";
    let source = format!("fn f() {{ match x {{ {} }} }}\n", arms.repeat(5_000));
    if let Err(errors) = timed(&source, Language::Rs) {
        panic!("{}", errors[0].message);
    }
}
