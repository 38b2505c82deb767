//! The embedded model: stories, seeds, branches, limits.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]

use tallow::{Ended, GenerateOptions, Message, Model, ModelOptions, Rows};

fn options(temperature: f32, seed: u64, max_tokens: usize) -> GenerateOptions {
    let model = Model::storyteller().unwrap();
    let mut sampling = model.sampling(seed).unwrap();
    sampling.temperature = temperature;
    GenerateOptions { sampling: Some(sampling), max_tokens: Some(max_tokens), ..GenerateOptions::default() }
}

fn text(model: &Model, prompt: &str, options: &GenerateOptions) -> String {
    let mut session = model.session().unwrap();
    session.generate_with(prompt, options).unwrap().collect::<Result<String, _>>().unwrap()
}

#[test]
fn tells_a_whole_story_about_what_was_asked() {
    let model = Model::storyteller().unwrap();
    let mut session = model.session().unwrap();
    let mut generation = session.generate_with("Tell me a story about a fox.", &options(0.0, 0, 400)).unwrap();
    let story: String = generation.by_ref().map(Result::unwrap).collect();
    assert_eq!(generation.ended(), Some(Ended::Stop));
    assert!(story.starts_with("Once upon a time"), "{story}");
    assert!(story.contains("fox"), "{story}");
    assert!(!story.contains("<|"), "{story}");
}

#[test]
fn a_seed_repeats_a_text_and_threads_and_chunks_do_not_change_it() {
    let model = Model::storyteller().unwrap();
    let first = text(&model, "A story about an owl, please.", &options(0.8, 7, 60));
    assert_eq!(first, text(&model, "A story about an owl, please.", &options(0.8, 7, 60)));
    assert_ne!(first, text(&model, "A story about an owl, please.", &options(0.8, 8, 60)));
    for (threads, chunk) in [(1, 512), (3, 512), (2, 1), (2, 7)] {
        let mut other = ModelOptions::default();
        other.program.threads = threads;
        other.program.chunk = chunk;
        let model = Model::storyteller_with(&other).unwrap();
        assert_eq!(first, text(&model, "A story about an owl, please.", &options(0.8, 7, 60)), "{threads} {chunk}");
    }
}

#[test]
fn a_session_reuses_a_common_beginning_and_branches_stay_apart() {
    let model = Model::storyteller().unwrap();
    let mut session = model.session().unwrap();
    let messages = [Message::new("user", "Tell me about Pip the otter.")];
    let answer: String = session.reply(&messages, &options(0.0, 0, 20)).unwrap().map(Result::unwrap).collect();
    let mut branch = session.clone();
    let more = [messages[0].clone(), Message::new("assistant", &answer), Message::new("user", "Tell me about a bear.")];
    let mut generation = session.reply(&more, &options(0.0, 0, 20)).unwrap();
    let next: String = generation.by_ref().map(Result::unwrap).collect();
    assert!(generation.statistics().reused_tokens > 10);
    // The same conversation in a fresh session gives the same text.
    let mut fresh = model.session().unwrap();
    let again: String = fresh.reply(&more, &options(0.0, 0, 20)).unwrap().map(Result::unwrap).collect();
    assert_eq!(next, again);
    let in_branch: String = branch.reply(&more, &options(0.0, 0, 20)).unwrap().map(Result::unwrap).collect();
    assert_eq!(next, in_branch);
}

#[test]
fn stop_strings_and_limits_end_a_text() {
    let model = Model::storyteller().unwrap();
    let mut stopped = options(0.0, 0, 200);
    stopped.stop = vec![".".into()];
    let sentence = text(&model, "Tell me a story about a fox.", &stopped);
    assert!(!sentence.contains('.') && sentence.len() > 20, "{sentence}");
    let mut session = model.session().unwrap();
    let mut generation = session.generate_with("Tell me a story about a fox.", &options(0.0, 0, 5)).unwrap();
    generation.by_ref().for_each(|piece| assert!(piece.is_ok()));
    assert_eq!((generation.ended(), generation.ids().len()), (Some(Ended::Length), 5));
}

#[test]
fn a_full_context_is_an_error_for_a_prompt_and_an_end_for_a_text() {
    let mut small = ModelOptions::default();
    small.program.context = Some(24);
    let model = Model::storyteller_with(&small).unwrap();
    let mut session = model.session().unwrap();
    let long = "a fox and a bear ".repeat(10);
    let message = session.generate(&long).err().unwrap().to_string();
    assert!(message.contains("context of 24"), "{message}");
    let mut generation = session.generate_with("A fox.", &options(0.0, 0, 200)).unwrap();
    generation.by_ref().for_each(|piece| assert!(piece.is_ok()));
    assert_eq!(generation.ended(), Some(Ended::Context));
}

#[test]
fn the_oracle_and_the_fast_path_agree_on_text() {
    let mut slow = ModelOptions::default();
    slow.program.engine = tallow::Engine::Reference;
    let (fast, slow) = (Model::storyteller().unwrap(), Model::storyteller_with(&slow).unwrap());
    let prompt = "Tell me a story about a turtle and a red kite.";
    let ids = fast
        .session()
        .unwrap()
        .encode(&(prompt.to_owned() + " " + &text(&fast, prompt, &options(0.0, 0, 80))))
        .unwrap();
    let logits = |m: &Model| m.session().unwrap().logits(&ids, Rows::All).unwrap().to_vec2::<f32>().unwrap();
    let (a, b) = (logits(&fast), logits(&slow));
    let best = |row: &[f32]| (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j])).unwrap();
    let equal = a.iter().zip(&b).filter(|(x, y)| best(x) == best(y)).count();
    assert!(equal * 100 >= a.len() * 98, "{equal} of {} first choices agree", a.len());
}
