//! `docs/operations.md` is what the table of operations says; `TALLOW_BLESS=1` writes it.

use std::path::Path;

#[test]
fn the_committed_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = tallow_ir::reference::operations_page();
    if std::env::var_os("TALLOW_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/operations.md is stale; run `TALLOW_BLESS=1 cargo test -p tallow-ir --test operations`"
    );
}

#[test]
fn the_page_has_a_row_for_each_operation_and_whole_tables() {
    let page = tallow_ir::reference::operations_page();
    for info in tallow_ir::OpInfo::all() {
        assert!(page.contains(&format!("\n| {} | {} | ", info.tag, info.name)), "{}", info.name);
    }
    for line in page.lines().filter(|l| l.starts_with("| ") && l.ends_with(" pure |")) {
        let bars = line.matches('|').count() - line.matches("\\|").count();
        assert_eq!(bars, 7, "{line}");
    }
}
