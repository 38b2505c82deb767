//! Tests of templates: presets, what Python's Jinja allows, limits, and begin tokens.

use super::*;
use std::time::Duration;
use tallow_format::{AddedToken, TokenizerConfig, TokenizerKind, Vocab};

fn special() -> SpecialTokens {
    SpecialTokens { bos: Some("<bos>".to_owned()), eos: Some("<eos>".to_owned()), ..SpecialTokens::default() }
}

fn turns() -> Vec<Message> {
    vec![
        Message::new("system", "Be brief. "),
        Message::new("user", "Hi\n"),
        Message::new("assistant", "Hello!"),
        Message::new("user", " 2 < 3 & 'x'?"),
    ]
}

fn preset(format: ChatFormat) -> String {
    let template = ChatTemplate::preset(format, &special()).unwrap();
    template.render(&turns(), true, &Variables::new()).unwrap()
}

/// A template's output on the turns, `extra` being a variable.
fn render(source: &str) -> Result<String, ChatError> {
    let mut variables = Variables::new();
    let extra = serde_json::json!({"b": [1, 2.5, true, null, "é<'\""], "a": {}, "c": []});
    variables.insert("extra".to_owned(), extra);
    ChatTemplate::from_source(source, &special())?
        .at_time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_211_909))
        .render(&turns(), true, &variables)
}

#[test]
fn presets_write_their_turns() {
    assert_eq!(
        preset(ChatFormat::ChatMl),
        "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n\
         <|im_start|>user\n 2 < 3 & 'x'?<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(
        preset(ChatFormat::Llama3),
        "<bos><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\
         Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\
         2 < 3 & 'x'?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    assert_eq!(
        preset(ChatFormat::Gemma),
        "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n\
         <start_of_turn>user\n2 < 3 & 'x'?<end_of_turn>\n<start_of_turn>model\n"
    );
    assert_eq!(preset(ChatFormat::Plain), "Be brief. \nHi\n\nHello!\n 2 < 3 & 'x'?");
    for format in ChatFormat::ALL {
        let template = ChatTemplate::preset(format, &special()).unwrap();
        assert!(template.render(&[], false, &Variables::new()).unwrap().len() <= 5);
        assert_eq!(template.stops().is_empty(), format == ChatFormat::Plain);
    }
}

#[test]
fn a_template_wins_over_the_preset_and_the_default_system_message_is_put_first() {
    let section = ChatSection {
        format: Some(ChatFormat::Gemma),
        template: Some("{% for m in messages %}[{{ m['role'] }}:{{ m.content }}]{% endfor %}".to_owned()),
        system_default: Some("Be kind.".to_owned()),
        eos_sequences: vec!["]".to_owned()],
    };
    let template = ChatTemplate::from_section(&section, &special()).unwrap();
    let user = [Message::new("user", "Hi")];
    let render = |messages: &[Message]| template.render(messages, false, &Variables::new()).unwrap();
    assert_eq!(render(&user), "[system:Be kind.][user:Hi]");
    assert_eq!(render(&turns()[..2]), "[system:Be brief. ][user:Hi\n]");
    assert_eq!(template.stops(), ["]"]);
    let nothing = ChatTemplate::from_section(&ChatSection::default(), &special());
    assert_eq!(nothing.unwrap_err(), ChatError::NoTemplate);
}

#[test]
fn blocks_are_trimmed_as_hugging_face_does() {
    let source = "{% if true %}\n  a\n  {% endif %}\n{{ 'b' }}\n  {# note #}\nc\n";
    assert_eq!(render(source).unwrap(), "  a\nb\nc");
}

#[test]
fn pythons_jinja_is_understood() {
    let cases = [
        ("{{ ' x '.strip() + 'a-b'.split('-')[-1] + 'q'.upper() }}", "xbQ"),
        ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('x') }}", "True False"),
        ("{{ messages[0]['content'].rstrip() }}", "Be brief."),
        ("{{ none }} {{ true }} {{ 1.0 }} {{ missing }}|", "None True 1.0 |"),
        ("{{ [1, 'a', none, \"it's\"] }}", "[1, 'a', None, \"it's\"]"),
        ("{{ {'a': true} }}", "{'a': True}"),
        ("{{ messages | length }} {{ messages[1:] | length }} {{ messages[::-1][0].role }}", "4 3 user"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "4"),
        (
            "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{% if loop.last %}{% break %}{% endif %}{{ m.role }},{% endfor %}",
            "system,assistant,",
        ),
        ("{{ extra | tojson }}", r#"{"b": [1, 2.5, true, null, "é<'\""], "a": {}, "c": []}"#),
        ("{{ {'a': [1]} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ]\n}"),
        ("{% for k, v in extra.items() %}{{ k }}{% endfor %}{{ extra.get('zz', 'no') }}", "bacno"),
        ("{{ strftime_now('%d %b %Y') }}", "29 Feb 2024"),
        ("{% if tools is not none %}x{% endif %}{% if enable is defined %}x{% endif %}", ""),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}", "<a>"),
        ("{%- generation -%}a{%- endgeneration -%}{% generation %}b{% endgeneration %}", "ab"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "2"),
        ("{{ messages | map(attribute='role') | join(',') }}", "system,user,assistant,user"),
        ("{{ 'a' if messages[0].content is string else 'b' }}", "a"),
        ("{{ '%s-%d' | format('x', 3) }}", "x-3"),
        ("{{ bos_token + eos_token }}{{ pad_token }}", "<bos><eos>"),
        ("{{ messages[0] is mapping }} {{ messages is iterable }}", "True True"),
        ("{{ 'a\\nb'.splitlines() | last }}{{ 7 // 2 }}{{ 7 % 4 }}", "b33"),
        ("{{ loop is defined }} {{ messages[0].tool_calls is defined }}", "False False"),
        ("{{ 'x' ~ 1 ~ 'y' }} {{ ('a', 'b') | join }}", "x1y ab"),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn what_goes_wrong_says_where() {
    let refused = render("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(refused, ChatError::Refused { message: "roles must alternate".to_owned() });
    let inside = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{% for x in messages %}{{ m() }}{% endfor %}";
    assert_eq!(render(inside).unwrap_err(), ChatError::Refused { message: "no".to_owned() });
    assert!(matches!(render("a\n{% if %}"), Err(ChatError::Syntax { line: 2, .. })));
    assert!(matches!(render("a\n\n{{ messages.x.y.z }}"), Err(ChatError::Render { line: 3, .. })));
    assert!(matches!(render("{{ strftime_now('%Q') }}"), Err(ChatError::Render { .. })));
    let mut variables = Variables::new();
    variables.insert("messages".to_owned(), serde_json::json!([]));
    let template = ChatTemplate::preset(ChatFormat::Plain, &special()).unwrap();
    assert!(matches!(template.render(&[], true, &variables), Err(ChatError::ReservedVariable { .. })));
}

#[test]
fn hostile_templates_end() {
    let nested = "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}";
    assert_eq!(render(nested), Err(ChatError::OutOfSteps));
    let long = "{% for a in range(10000) %}{{ 'x' * 1000000 }}{% endfor %}";
    assert_eq!(render(long), Err(ChatError::PromptTooLong));
    let endless = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert!(matches!(render(endless), Err(ChatError::Render { .. })));
    let deep = format!("{{{{ {}1{} }}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(render(&deep), Err(ChatError::TooDeep { .. })));
    let huge = "x".repeat(ChatSection::MAX_TEMPLATE + 1);
    assert!(matches!(render(&huge), Err(ChatError::TooLong { .. })));
}

#[test]
fn a_prompt_begins_with_exactly_one_begin_token() {
    let token = |id, text: &str| AddedToken { id, text: text.to_owned(), special: true, ..AddedToken::default() };
    let vocab = Vocab {
        tokens: vec![Some("a".to_owned())],
        added: vec![token(1, "<bos>"), token(2, "<eos>")],
        ..Vocab::default()
    };
    let tokenizer = |add: bool| {
        let config = TokenizerConfig {
            kind: Some(TokenizerKind::ByteLevelBpe),
            bos_token: Some("<bos>".to_owned()),
            eos_token: Some("<eos>".to_owned()),
            add_bos: Some(add),
            add_eos: Some(add),
            ..TokenizerConfig::default()
        };
        Tokenizer::new(&vocab, &config).unwrap()
    };
    let encode = |add, text| encode_prompt(&tokenizer(add), text).unwrap();
    assert_eq!(encode(true, "aa"), [1, 0, 0]);
    assert_eq!(encode(true, "<bos>a"), [1, 0]);
    assert_eq!(encode(true, "<bos><bos>a<bos>"), [1, 0, 1]);
    assert_eq!(encode(false, "<bos>a"), [1, 0]);
    assert_eq!(encode(false, "a"), [0]);
    assert_eq!(encode(true, ""), [1]);
    let texts = SpecialTokens::of(&tokenizer(true));
    assert_eq!((texts.bos.as_deref(), texts.eos.as_deref()), (Some("<bos>"), Some("<eos>")));
}

#[test]
fn templates_built_to_exhaust_the_engine_are_refused() {
    let special = SpecialTokens::default();
    let nots = format!("{{{{ {}1 }}}}", "not ".repeat(100_000));
    assert!(matches!(ChatTemplate::from_source(&nots, &special), Err(ChatError::TooDeep { .. })));
    let sums = format!("{{{{ 1{} }}}}", "+1".repeat(100_000));
    assert!(matches!(ChatTemplate::from_source(&sums, &special), Err(ChatError::TooDeep { .. })));
    let tags = "{%if 1%}".repeat(100_000);
    assert!(matches!(ChatTemplate::from_source(&tags, &special), Err(ChatError::TooDeep { .. })));
    // Just below the limits: an error or a template, and no exhausted stack.
    let _ = ChatTemplate::from_source(&format!("{{{{ {}1 }}}}", "not ".repeat(1_900)), &special);
    let _ = ChatTemplate::from_source(&"{%if 1%}".repeat(3_900), &special);
    let _ = ChatTemplate::from_source(&format!("{{{{ 1{} }}}}", "+1".repeat(900)), &special);
    let cycle = ChatTemplate::from_source("{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", &special).unwrap();
    assert!(cycle.render(&[], true, &Variables::new()).is_err());
}
