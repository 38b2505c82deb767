//! `docs/languages.md` is what the tables of builtins and methods say; `TALLOW_BLESS=1` writes it.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests fail by panicking")]

use std::path::Path;
use tallow_frontends::program::reference::languages;

#[test]
fn the_page_of_the_languages_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/languages.md");
    let page = languages();
    if std::env::var_os("TALLOW_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/languages.md is stale; run `TALLOW_BLESS=1 cargo test -p tallow-frontends --test languages`"
    );
}
