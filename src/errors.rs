//! What the errors of [`ein!`](crate::ein) mean, a page each.
//!
//! An error of the language has a code, which its message starts with; its last line names the page
//! here. A page says what is wrong, why it is refused, and what to write instead.

pub use eindecomp_core::syntax::Code;

macro_rules! pages {
    ($($page:ident $code:ident,)*) => {
        $(
            #[doc = include_str!(concat!("errors/", stringify!($page), ".md"))]
            pub const $page: Code = Code::$code;
        )*

        /// The pages as text, by code.
        pub const PAGES: &[(Code, &str)] = &[
            $(($page, include_str!(concat!("errors/", stringify!($page), ".md"))),)*
        ];
    };
}

pages! {
    EIN0001 ExtentMismatch,
    EIN0002 UnboundIndex,
    EIN0003 RankMismatch,
    EIN0004 UnknownExtent,
    EIN0005 UnprovenExtent,
    EIN0006 OutOfRange,
    EIN0007 MergedAxis,
    EIN0008 Narrowing,
    EIN0009 GatherIndex,
    EIN0010 UndefinedName,
    EIN0011 CallExtent,
    EIN0012 Bind,
    EIN0013 Syntax,
    EIN0015 ResultType,
    EIN0016 CallAnnotation,
    EIN0017 CarriedType,
    EIN0018 ReducedOutput,
    EIN0019 ResultNotName,
    EIN0020 MissingElse,
    EIN0021 FactorInReduction,
    EIN0022 NestedReduction,
    EIN0023 NarrowingFactor,
    EIN0024 Duplicate,
    EIN0025 ReservedName,
    EIN0026 UnknownAgg,
    EIN0027 UnknownFunction,
    EIN0028 Arity,
    EIN0029 NoCommonDtype,
    EIN0030 IntegerLiteral,
    EIN0031 DtypeRule,
    EIN0032 UnknownType,
    EIN0033 UnknownField,
    EIN0034 CalleeClause,
    EIN0035 ParamRole,
    EIN0036 Argument,
    EIN0037 StoreTarget,
    EIN0038 StoreNotInjective,
    EIN0039 Recursion,
    EIN0040 Tuple,
    EIN0041 TooDeep,
    EIN0042 Literal,
    EIN0043 Attribute,
    EIN0044 NotMutable,
    EIN0045 DimValue,
    EIN0046 Extent,
    EIN0047 Loop,
    EIN0048 Pattern,
    EIN0049 ClauseFalse,
    EIN0050 OutOfScope,
    EIN0051 Splits,
    EIN0052 TooLarge,
}
