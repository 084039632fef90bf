//! Expressions, values and extents of a dump.

use super::super::NodeId;
use super::super::display::RESERVED;
use super::super::lex::Token;
use super::{MAX_TERMS, ParseErrorKind, Parsed, Parser, Scope};
use crate::ein::{DType, Dim, Expr, Fold, LabelId, Opaque, Operand, ScalarFn, Value};

impl Parser {
    /// Binary operators of level `least` or tighter.
    pub(super) fn expr(&mut self, scope: &mut Scope, least: usize) -> Parsed<Expr> {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let mut left = self.unary(scope)?;
        loop {
            let symbol = match *self.peek() {
                Token::Punct(p) => p,
                _ => return Ok(left),
            };
            let level = LEVELS.iter().position(|l| l.contains(&symbol));
            let function = ScalarFn::from_symbol(symbol, 2);
            let (Some(level), Some(f)) = (level.filter(|&l| l >= least), function) else {
                return Ok(left);
            };
            self.next();
            self.grow()?;
            let right = self.nested(|p| p.expr(scope, level + 1))?;
            left = Expr::call(f, [left, right]);
        }
    }

    fn unary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        let literal = match self.peek_second() {
            Token::Number(_) => true,
            Token::Word(w) => w == "inf",
            _ => false,
        };
        let mut x = if self.is("!") || (self.is("-") && !literal) {
            let f = if self.is("!") {
                ScalarFn::NOT
            } else {
                ScalarFn::NEG
            };
            self.next();
            self.grow()?;
            // `as` binds looser than `-` and `!`.
            let x = self.nested(|p| p.operand_of_unary(scope))?;
            Expr::call(f, [x])
        } else {
            self.primary(scope)?
        };
        while self.eat_word("as") {
            self.grow()?;
            x = Expr::Cast(self.dtype()?, Box::new(x));
        }
        Ok(x)
    }

    fn operand_of_unary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        for (symbol, f) in [("-", ScalarFn::NEG), ("!", ScalarFn::NOT)] {
            if self.eat(symbol) {
                self.grow()?;
                let x = self.nested(|p| p.operand_of_unary(scope))?;
                return Ok(Expr::call(f, [x]));
            }
        }
        self.primary(scope)
    }

    /// `extern("topk", 1, [n=8], [b])`; its element type is the statement's.
    fn opaque(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        let Some(dtype) = scope.dtype else {
            return self.error(ParseErrorKind::Expected("an expression"));
        };
        self.next();
        self.expect("(")?;
        let kernel = self.text()?;
        self.expect(",")?;
        let Ok(result) = u16::try_from(self.integer()?) else {
            return self.error(ParseErrorKind::Number);
        };
        self.expect(",")?;
        self.expect("[")?;
        self.list("]", |p| p.declare(scope))?;
        self.expect(",")?;
        self.expect("[")?;
        let splits = self.list("]", |p| match p.primary(scope)? {
            Expr::Index(l) => Ok(l),
            _ => p.error(ParseErrorKind::Expected("an index")),
        })?;
        self.expect(")")?;
        Ok(Expr::Opaque(Opaque {
            kernel,
            result,
            splits,
            dtype,
        }))
    }

    pub(super) fn primary(&mut self, scope: &mut Scope) -> Parsed<Expr> {
        match self.peek().clone() {
            Token::Ref('%', n) => self.access(scope, NodeId(n)),
            Token::Ref('@', n) => {
                self.next();
                Ok(Expr::Operand(n as usize))
            }
            Token::Ref('$', n) => {
                self.next();
                self.expect(":")?;
                Ok(Expr::Slot(n, self.dtype()?))
            }
            Token::Ref('#', n) => {
                if n as usize >= scope.labels.len() {
                    return self.error(ParseErrorKind::UnknownLabel(format!("#{n}")));
                }
                self.next();
                Ok(Expr::Index(LabelId(n as u16)))
            }
            Token::Punct("{") => {
                self.next();
                let dim = self.dim()?;
                self.expect("}")?;
                Ok(Expr::Dim(dim))
            }
            Token::Punct("(") => {
                self.next();
                if let Some(reduce) = self.reduce(scope)? {
                    self.grow()?;
                    let body = self.nested(|p| p.reduced(scope, Some(&reduce)))?;
                    self.expect(")")?;
                    return Ok(Expr::Fold(Box::new(Fold { reduce, body })));
                }
                let x = self.nested(|p| p.expr(scope, 0))?;
                if self.is_word("else") {
                    let last = scope.operands.len().wrapping_sub(1);
                    match scope.operands.last_mut() {
                        Some(o) if x == Expr::Operand(last) && o.otherwise.is_none() => {
                            self.next();
                            o.otherwise = Some(self.value()?);
                        }
                        _ => return self.error(ParseErrorKind::Expected("an access before else")),
                    }
                }
                self.expect(")")?;
                Ok(x)
            }
            Token::Word(w) if w == "extern" => self.opaque(scope),
            Token::Word(w) if matches!(self.peek_second(), Token::Punct("(")) => {
                self.grow()?;
                let place = self.at;
                self.next();
                self.next();
                let mut args = self.nested(|p| p.list(")", |p| p.expr(scope, 0)))?;
                if let ("if", [c, a, b]) = (w.as_str(), args.as_mut_slice()) {
                    let take = |x: &mut Expr| Box::new(std::mem::replace(x, Expr::Operand(0)));
                    return Ok(Expr::If(take(c), take(a), take(b)));
                }
                match ScalarFn::from_name(&w, args.len()) {
                    Some(f) => Ok(Expr::Call(f, args)),
                    None => {
                        self.at = place;
                        self.error(ParseErrorKind::UnknownFunction {
                            name: w,
                            arguments: args.len(),
                        })
                    }
                }
            }
            Token::Word(w) if !RESERVED.contains(&w.as_str()) => {
                let mut found = scope
                    .labels
                    .iter()
                    .enumerate()
                    .filter(|(_, l)| *l.name == *w);
                match (found.next(), found.next()) {
                    (Some((at, _)), None) => {
                        self.next();
                        Ok(Expr::Index(LabelId(at as u16)))
                    }
                    _ => self.error(ParseErrorKind::UnknownLabel(w)),
                }
            }
            _ => {
                let value = self.value()?;
                if self.eat(":") {
                    return Ok(Expr::Const(value, self.dtype()?));
                }
                match value {
                    Value::Int(_) => Ok(Expr::Const(value, DType::I64)),
                    _ => self.error(ParseErrorKind::Expected("a colon and an element type")),
                }
            }
        }
    }

    fn access(&mut self, scope: &mut Scope, node: NodeId) -> Parsed<Expr> {
        self.grow()?;
        self.next();
        self.expect("[")?;
        let index = self.nested(|p| p.list("]", |p| p.expr(scope, 0)))?;
        scope.operands.push(Operand {
            node,
            index,
            otherwise: None,
        });
        Ok(Expr::Operand(scope.operands.len() - 1))
    }

    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let Token::Number(text) = self.peek() else {
            return self.error(ParseErrorKind::Expected("an integer"));
        };
        match text.parse() {
            Ok(n) => {
                self.next();
                Ok(n)
            }
            Err(_) => self.error(ParseErrorKind::Number),
        }
    }

    pub(super) fn value(&mut self) -> Parsed<Value> {
        let negative = self.eat("-");
        let sign = if negative { -1.0 } else { 1.0 };
        let value = match self.peek() {
            Token::Word(w) => match w.as_str() {
                "inf" => Some(Value::Float(sign * f64::INFINITY)),
                "nan" if !negative => Some(Value::Float(f64::NAN)),
                "true" if !negative => Some(Value::Bool(true)),
                "false" if !negative => Some(Value::Bool(false)),
                _ => return self.error(ParseErrorKind::Expected("an expression or a value")),
            },
            Token::Number(text) if text.contains(['.', 'e']) => {
                text.parse::<f64>().ok().map(|x| Value::Float(sign * x))
            }
            Token::Number(text) => {
                let magnitude = text.parse::<i128>().ok();
                let signed = magnitude.map(|n| if negative { -n } else { n });
                signed.and_then(|n| i64::try_from(n).ok()).map(Value::Int)
            }
            _ => return self.error(ParseErrorKind::Expected("an expression or a value")),
        };
        match value {
            Some(value) => {
                self.next();
                Ok(value)
            }
            None => self.error(ParseErrorKind::Number),
        }
    }

    pub(super) fn dim(&mut self) -> Parsed<Dim> {
        let mut sum = Dim::default();
        let mut minus = self.eat("-");
        loop {
            let term = self.dim_term()?;
            sum = if minus { &sum - &term } else { &sum + &term };
            if sum.terms().count() > MAX_TERMS {
                return self.error(ParseErrorKind::TooLarge);
            }
            minus = self.is("-");
            if !minus && !self.is("+") {
                return Ok(sum);
            }
            self.next();
        }
    }

    fn dim_term(&mut self) -> Parsed<Dim> {
        let mut product = self.dim_factor()?;
        loop {
            let Some(op) = ["*", "/", "%"].into_iter().find(|op| self.eat(op)) else {
                return Ok(product);
            };
            self.grow()?;
            let right = self.dim_factor()?;
            if product.terms().count() * right.terms().count() > MAX_TERMS {
                return self.error(ParseErrorKind::TooLarge);
            }
            product = match op {
                "*" => &product * &right,
                "/" => product.floor_div(&right),
                _ => product.rem(&right),
            };
        }
    }

    fn dim_factor(&mut self) -> Parsed<Dim> {
        match self.peek().clone() {
            Token::Word(w) => {
                self.next();
                Ok(Dim::sym(w))
            }
            Token::Number(_) => self.integer().map(Dim::from),
            Token::Punct("(") => {
                self.next();
                let dim = self.nested(Parser::dim)?;
                self.expect(")")?;
                Ok(dim)
            }
            _ => self.error(ParseErrorKind::Expected("an extent")),
        }
    }
}
