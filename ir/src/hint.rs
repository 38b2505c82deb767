//! Device wishes of nodes: which device the writer of a graph would like a node to run on. A wish,
//! never an order: an unknown or absent device is ignored.

/// Wishes with the byte of the binary form, in its order.
const NAMES: [(u8, &str); 6] = [(1, "cpu"), (2, "wgpu"), (3, "honeycrisp"), (4, "nox"), (5, "cuda"), (6, "metal")];

/// The name of a wish: `cuda` for 5; `None` for a byte without meaning.
pub fn hint_name(hint: u8) -> Option<&'static str> {
    NAMES.iter().find(|(n, _)| *n == hint).map(|(_, name)| *name)
}

/// The byte of a wish by name.
pub fn hint_from_name(name: &str) -> Option<u8> {
    NAMES.iter().find(|(_, n)| *n == name).map(|(n, _)| *n)
}
