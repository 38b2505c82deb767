//! Graphs as web pages: one HTML file each that shows a graph, or two side by side, and needs nothing else.
//!
//! A page asks nothing of the network, which its content security policy makes sure of: the layout
//! library, the viewer and the graph are in the file. Names of weights, values and functions come from
//! model files that may be hostile; they are data in the page and never become markup.
//!
//! The same bytes for the same graph, in time linear in its nodes. What the reader does with a page is in
//! `assets/`, one topic a file.

mod about;
mod class;
mod data;
mod diff;
mod html;

pub use about::{About, Remark, Source};

use crate::Graph;
use crate::diff::Diff;
use crate::dump::{Listing, Tree};
use serde_json::Value;

/// A page that shows `graph`: layers fold, nodes tell their types, attributes, weights and remarks, and a
/// search finds them.
///
/// ```
/// use tallow_ir::{Graph, page, text};
/// let graph = text::parse("graph {\n input %x: f32[S, 4]\n %y: f32[S, 4] = Relu(%x)\n output y = %y\n}")?;
/// let page = page::graph(&graph, &page::About::titled("one activation"));
/// assert!(page.starts_with("<!doctype html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn graph(graph: &Graph, about: &About) -> String {
    let tree = tree(graph, about);
    let mut data = String::from("{\"graphs\":[");
    data::graph(&tree, about, &mut data);
    data.push_str("]}");
    html::page(&about.title, &data)
}

/// A page that shows two graphs side by side, with what was removed, added and changed from left to right:
/// a list of the differences, and folds open where they are. `difference` is that of these graphs.
pub fn diff(left: &Graph, right: &Graph, difference: &Diff, about_left: &About, about_right: &About) -> String {
    let (l, r) = (tree(left, about_left), tree(right, about_right));
    let title = format!("{} ↔ {}", about_left.title, about_right.title);
    let mut data = String::from("{\"graphs\":[");
    data::graph(&l, about_left, &mut data);
    data.push(',');
    data::graph(&r, about_right, &mut data);
    data.push_str(&format!("],\"title\":{},\"diff\":", Value::from(title.as_str())));
    data.push_str(&diff::difference(&l, &r, difference).to_string());
    data.push('}');
    html::page(&title, &data)
}

fn tree<'g>(graph: &'g Graph, about: &'g About) -> Tree<'g> {
    Tree::new(Listing::new(graph), |id| about.modules.get(&id).map(String::as_str))
}
