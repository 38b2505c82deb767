//! The syntax tree that both languages parse into.
//!
//! Expressions lie in one arena and refer to each other by [`ExprId`], so that dropping a tree never
//! recurses, and a tree is shared between threads. Every expression, name and pattern has a [`Span`].

use std::sync::Arc;

/// A range of bytes of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From byte `start` to before `end`.
    pub fn new(start: usize, end: usize) -> Self {
        let at = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: at(start), end: at(end) }
    }

    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A language of program sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Rust syntax.
    Rs,
    /// Trident.
    Tri,
}

/// An identifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// Its text.
    pub text: Arc<str>,
    /// Where it stands.
    pub span: Span,
}

/// The number of an expression in [`Tree::exprs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExprId(pub u32);

/// A parsed program.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Its language.
    pub language: Language,
    /// Every expression.
    pub exprs: Vec<Expr>,
    /// The modules that `use` lines name, as written (`std.nn.tensor`), in order; `.tri` only.
    pub uses: Vec<Name>,
    /// Constants, in order.
    pub consts: Vec<Const>,
    /// Structs, in order.
    pub structs: Vec<StructDef>,
    /// Enums, in order; `.rs` only.
    pub enums: Vec<EnumDef>,
    /// Functions, in order; methods of `impl` blocks among them.
    pub functions: Vec<Function>,
}

impl Tree {
    /// An empty tree.
    pub fn new(language: Language) -> Self {
        Tree {
            language,
            exprs: Vec::new(),
            uses: Vec::new(),
            consts: Vec::new(),
            structs: Vec::new(),
            enums: Vec::new(),
            functions: Vec::new(),
        }
    }

    /// Adds an expression.
    pub fn add(&mut self, kind: ExprKind, span: Span) -> ExprId {
        self.exprs.push(Expr { kind, span });
        ExprId((self.exprs.len() - 1) as u32)
    }

    /// An expression.
    ///
    /// # Panics
    /// When `id` is of another tree.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }
}

/// `const NAME: Type = value;`
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    /// The name.
    pub name: Name,
    /// The type whose `impl` block holds it.
    pub owner: Option<Arc<str>>,
    /// The type.
    pub ty: Type,
    /// The value.
    pub value: ExprId,
}

/// `struct Name { field: Type }`, or `struct Name(Type)` with the fields `0`, `1` ….
#[derive(Clone, Debug, PartialEq)]
pub struct StructDef {
    /// The name.
    pub name: Name,
    /// The fields.
    pub fields: Vec<(Name, Type)>,
}

/// `enum Name { A, B(Type), C { field: Type } }`.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumDef {
    /// The name.
    pub name: Name,
    /// The variants; fields of a tuple variant are named `0`, `1` ….
    pub variants: Vec<StructDef>,
}

/// A function, or a method of an `impl` block.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The name.
    pub name: Name,
    /// The type whose `impl` block holds it.
    pub owner: Option<Arc<str>>,
    /// Whether it is `pub`.
    pub public: bool,
    /// The parameters; a receiver is the first, named `self`.
    pub params: Vec<Param>,
    /// The type of the result; `None` for `()` that is not written.
    pub result: Option<Type>,
    /// The body, an [`ExprKind::Block`].
    pub body: ExprId,
    /// From `fn` to the end of the signature.
    pub span: Span,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// What it binds.
    pub pattern: Pattern,
    /// Its type; [`TypeKind::Inferred`] for a closure's without one and for a bare `self`.
    pub ty: Type,
    /// All of it.
    pub span: Span,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// What it is.
    pub kind: TypeKind,
    /// Where it stands.
    pub span: Span,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `_`, or nothing written.
    Inferred,
    /// The last segment of a path, and its arguments: `Vec<u32>`, `f32`, `Self`; lifetimes are dropped.
    Named(Arc<str>, Vec<Type>),
    /// `&T`, `&mut T`.
    Reference {
        /// Whether it is `&mut`.
        mutable: bool,
        /// What it refers to.
        of: Box<Type>,
    },
    /// `[T]`.
    Slice(Box<Type>),
    /// `[T; n]`.
    Array(Box<Type>, ExprId),
    /// `(A, B)`; `()` without any.
    Tuple(Vec<Type>),
    /// `impl Fn(A) -> B`, `fn(A) -> B`, `&dyn Fn(A) -> B`, `impl Iterator<…>`: anything that is called or
    /// walked and whose type this language does not look into.
    Opaque,
}

impl Type {
    /// The type behind references.
    pub fn bare(&self) -> &Type {
        match &self.kind {
            TypeKind::Reference { of, .. } => of.bare(),
            _ => self,
        }
    }

    /// The name of a named type behind references.
    pub fn name(&self) -> Option<&str> {
        match &self.bare().kind {
            TypeKind::Named(name, _) => Some(name),
            _ => None,
        }
    }
}

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// An integer's type.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntType {
    I8,
    I16,
    I32,
    I64,
    I128,
    Isize,
    U8,
    U16,
    U32,
    U64,
    U128,
    Usize,
}

impl IntType {
    /// The type of a name such as `u32`.
    pub fn from_name(name: &str) -> Option<Self> {
        use IntType::*;
        Some(match name {
            "i8" => I8,
            "i16" => I16,
            "i32" => I32,
            "i64" => I64,
            "i128" => I128,
            "isize" => Isize,
            "u8" => U8,
            "u16" => U16,
            "u32" => U32,
            "u64" => U64,
            "u128" => U128,
            "usize" => Usize,
            _ => return None,
        })
    }

    /// The name.
    pub fn name(self) -> &'static str {
        use IntType::*;
        match self {
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            I128 => "i128",
            Isize => "isize",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            U128 => "u128",
            Usize => "usize",
        }
    }

    /// The width; sizes have 64 bits.
    pub fn bits(self) -> u32 {
        use IntType::*;
        match self {
            I8 | U8 => 8,
            I16 | U16 => 16,
            I32 | U32 => 32,
            I64 | U64 | Isize | Usize => 64,
            I128 | U128 => 128,
        }
    }

    /// Whether it holds negative numbers.
    pub fn is_signed(self) -> bool {
        use IntType::*;
        match self {
            I8 | I16 | I32 | I64 | I128 | Isize => true,
            U8 | U16 | U32 | U64 | U128 | Usize => false,
        }
    }
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `1`, `0xff`, `1_000u32`. Past [`i128::MAX`] is an error of the parser.
    Int(i128, Option<IntType>),
    /// `1.5`, `1e-6`, `2.0f32`, `1f32`.
    Float(f64),
    /// `"text"`, raw strings.
    Str(Arc<str>),
    /// `b"bytes"`.
    Bytes(Arc<[u8]>),
    /// `'c'`.
    Char(char),
    /// `true`, `false`.
    Bool(bool),
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `!x`
    Not,
    /// `*x`
    Deref,
}

/// An operator with two operands.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    /// `&&`
    And,
    /// `||`
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinaryOp {
    /// As written.
    pub fn symbol(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Rem => "%",
            BitAnd => "&",
            BitOr => "|",
            BitXor => "^",
            Shl => "<<",
            Shr => ">>",
            And => "&&",
            Or => "||",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Literal(Literal),
    /// `x`, `Tensor::zeros`, `f32::MAX`, `Shape::Square`; all but the last segment of a longer path are
    /// kept too. `.tri` has paths in calls only (`tensor.embed`), as [`ExprKind::Method`].
    Path(Vec<Name>, Vec<Type>),
    /// `x.name`, `x.0`.
    Field(ExprId, Name),
    /// `x[i]`.
    Index(ExprId, ExprId),
    /// `f(x)`.
    Call(ExprId, Vec<ExprId>),
    /// `x.f(y)`, `x.collect::<Vec<_>>()`.
    Method {
        /// `x`.
        receiver: ExprId,
        /// `f`.
        name: Name,
        /// Turbofish.
        types: Vec<Type>,
        /// The arguments.
        args: Vec<ExprId>,
    },
    /// `-x`, `!x`, `*x`.
    Unary(UnaryOp, ExprId),
    /// `&x`, `&mut x`.
    Ref {
        /// Whether it is `&mut`.
        mutable: bool,
        /// `x`.
        of: ExprId,
    },
    /// `x + y`.
    Binary(BinaryOp, ExprId, ExprId),
    /// `x = y`.
    Assign(ExprId, ExprId),
    /// `x += y`.
    AssignOp(BinaryOp, ExprId, ExprId),
    /// `x as T`.
    Cast(ExprId, Type),
    /// `a..b`, `..=b`.
    Range {
        /// The start.
        start: Option<ExprId>,
        /// The end.
        end: Option<ExprId>,
        /// Whether the end belongs to it.
        inclusive: bool,
    },
    /// `let PATTERN = x`, inside the condition of an `if` or `while`.
    Let(Pattern, ExprId),
    /// `if c { } else { }`.
    If {
        /// `c`.
        condition: ExprId,
        /// A block.
        then: ExprId,
        /// A block or another `if`.
        otherwise: Option<ExprId>,
    },
    /// `match x { … }`.
    Match(ExprId, Vec<Arm>),
    /// `{ … }`, with a label where it has one.
    Block(Block),
    /// `for pattern in iter [bounded n] { }`.
    For {
        /// `'a:`
        label: Option<Name>,
        /// What each element binds.
        pattern: Pattern,
        /// What is walked.
        iter: ExprId,
        /// `bounded n` of `.tri`.
        bound: Option<ExprId>,
        /// A block.
        body: ExprId,
    },
    /// `while c { }`.
    While {
        /// `'a:`
        label: Option<Name>,
        /// `c`.
        condition: ExprId,
        /// A block.
        body: ExprId,
    },
    /// `loop { }`.
    Loop {
        /// `'a:`
        label: Option<Name>,
        /// A block.
        body: ExprId,
    },
    /// `break 'a x`.
    Break {
        /// `'a`
        label: Option<Name>,
        /// `x`.
        value: Option<ExprId>,
    },
    /// `continue 'a`.
    Continue(Option<Name>),
    /// `return x`.
    Return(Option<ExprId>),
    /// `|a, b| x`.
    Closure {
        /// The parameters.
        params: Vec<Param>,
        /// `x`.
        body: ExprId,
    },
    /// `(a, b)`; `()` without any.
    Tuple(Vec<ExprId>),
    /// `[a, b]`, `vec![a, b]`.
    List(Vec<ExprId>),
    /// `[x; n]`, `vec![x; n]`.
    Repeat(ExprId, ExprId),
    /// `Name { field: x, ..base }`, `Enum::Variant { … }`.
    Struct {
        /// The path.
        path: Vec<Name>,
        /// The fields.
        fields: Vec<(Name, ExprId)>,
        /// `base`.
        base: Option<ExprId>,
    },
    /// `format!`, `panic!`, `assert!` and their kin.
    Macro {
        /// Which.
        kind: MacroKind,
        /// The condition of `assert!`; both sides of `assert_eq!`.
        subjects: Vec<ExprId>,
        /// The text, in pieces.
        pieces: Vec<Piece>,
    },
    /// `x?`.
    Try(ExprId),
}

/// A macro with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacroKind {
    /// `format!`
    Format,
    /// `panic!`, `unreachable!`, `todo!`
    Panic,
    /// `assert!`, `debug_assert!`
    Assert,
    /// `assert_eq!`
    AssertEq,
    /// `assert_ne!`
    AssertNe,
}

/// A piece of a format text.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Literal text, `{{` and `}}` resolved.
    Text(Arc<str>),
    /// `{}`, `{0}`, `{name}`, `{name:>5.2}`.
    Value {
        /// What is shown; inline names are paths.
        value: ExprId,
        /// How.
        spec: FormatSpec,
    },
}

/// What stands after the colon of `{:…}`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FormatSpec {
    /// The character that fills.
    pub fill: Option<char>,
    /// `<`, `^` or `>`.
    pub align: Option<char>,
    /// `+`.
    pub plus: bool,
    /// `#`.
    pub alternate: bool,
    /// `0`.
    pub zero: bool,
    /// Least width.
    pub width: Option<usize>,
    /// Digits after the point; most characters of a text.
    pub precision: Option<usize>,
    /// Empty, `?`, `x`, `X`, `b`, `o` or `e`.
    pub kind: Option<char>,
}

/// `{ statements; value }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// `'a:`
    pub label: Option<Name>,
    /// The statements.
    pub statements: Vec<Statement>,
    /// The value, without a semicolon. `.tri`: the last expression of a body.
    pub value: Option<ExprId>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `let pattern: ty = value else { otherwise };`
    Let {
        /// What it binds.
        pattern: Pattern,
        /// The type.
        ty: Option<Type>,
        /// The value; `None` for a variable that is assigned later.
        value: Option<ExprId>,
        /// The block of `let … else`.
        otherwise: Option<ExprId>,
        /// All of it.
        span: Span,
    },
    /// An expression for its effect.
    Expr(ExprId),
}

/// `pattern if guard => value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// What it matches.
    pub pattern: Pattern,
    /// The guard.
    pub guard: Option<ExprId>,
    /// The value.
    pub value: ExprId,
}

/// A pattern and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// What it is.
    pub kind: PatternKind,
    /// All of it.
    pub span: Span,
}

/// What a pattern is. References in patterns (`&x`, `ref x`) are transparent and not kept.
#[derive(Clone, Debug, PartialEq)]
pub enum PatternKind {
    /// `_`
    Wildcard,
    /// `x`, `mut x`, `x @ pattern`.
    Bind {
        /// `x`.
        name: Name,
        /// Whether it is `mut`.
        mutable: bool,
        /// `pattern`.
        inner: Option<Box<Pattern>>,
    },
    /// `1`, `-1`, `"a"`, `'c'`, `true`.
    Literal(Literal),
    /// `1..=5`, `..3`, `'a'..='z'`.
    Range {
        /// The start.
        start: Option<Literal>,
        /// The end.
        end: Option<Literal>,
        /// Whether the end belongs to it.
        inclusive: bool,
    },
    /// `None`, `Shape::Square`, `LIMIT`. A single lower-case name is [`PatternKind::Bind`].
    Path(Vec<Name>),
    /// `Some(x)`, `Shape::Square(x)`, `Pair(a, ..)`.
    TupleStruct(Vec<Name>, Vec<Pattern>),
    /// `Point { x, y: 0, .. }`.
    Struct {
        /// The path.
        path: Vec<Name>,
        /// The fields.
        fields: Vec<(Name, Pattern)>,
        /// Whether it ends with `..`.
        rest: bool,
    },
    /// `(a, b)`.
    Tuple(Vec<Pattern>),
    /// `[a, b, ..]`.
    Slice(Vec<Pattern>),
    /// `..` or `rest @ ..` inside a tuple or slice.
    Rest(Option<Name>),
    /// `a | b`.
    Or(Vec<Pattern>),
}
