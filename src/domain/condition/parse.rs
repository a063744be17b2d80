//! Text to condition.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::Value;

use super::token::{Token, tokens};
use super::{Check, Condition, Node};

/// Characters of a condition.
pub const MAX_CHARS: usize = 1_024;

/// Levels of parentheses and `not`.
const MAX_DEPTH: usize = 16;

/// A text is not a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}")]
pub struct ConditionError {
    /// Where, in characters, from 1.
    pub column: usize,
    /// What would have been read there.
    pub expected: &'static str,
}

pub(super) fn condition(text: &str) -> Result<Condition, ConditionError> {
    if text.chars().count() > MAX_CHARS {
        return Err(ConditionError { column: MAX_CHARS + 1, expected: "at most 1,024 characters" });
    }
    let end = text.chars().count() + 1;
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable(), end, places: vec![] };
    let root = parser.any(0)?;
    match parser.tokens.peek() {
        None => Ok(Condition { root, places: parser.places }),
        Some(_) => Err(parser.expected("`and`, `or` or the end")),
    }
}

struct Parser {
    tokens: Peekable<IntoIter<(usize, Token)>>,
    end: usize,
    places: Vec<String>,
}

impl Parser {
    fn expected(&mut self, expected: &'static str) -> ConditionError {
        let column = self.tokens.peek().map_or(self.end, |(column, _)| *column);
        ConditionError { column, expected }
    }

    fn eat(&mut self, word: &'static str) -> bool {
        self.tokens.next_if(|(_, token)| *token == Token::Word(word)).is_some()
    }

    fn need(&mut self, word: &'static str, expected: &'static str) -> Result<(), ConditionError> {
        if self.eat(word) { Ok(()) } else { Err(self.expected(expected)) }
    }

    fn any(&mut self, depth: usize) -> Result<Node, ConditionError> {
        let mut nodes = vec![self.all(depth)?];
        while self.eat("or") {
            nodes.push(self.all(depth)?);
        }
        Ok(Node::Any(nodes))
    }

    fn all(&mut self, depth: usize) -> Result<Node, ConditionError> {
        let mut nodes = vec![self.term(depth)?];
        while self.eat("and") {
            nodes.push(self.term(depth)?);
        }
        Ok(Node::All(nodes))
    }

    fn term(&mut self, depth: usize) -> Result<Node, ConditionError> {
        if depth > MAX_DEPTH {
            return Err(self.expected("at most 16 levels"));
        }
        if self.eat("not") {
            return Ok(Node::Not(Box::new(self.term(depth + 1)?)));
        }
        if self.eat("(") {
            let inner = self.any(depth + 1)?;
            self.need(")", "`)`")?;
            return Ok(inner);
        }
        let place = self.place()?;
        self.places.push(place.clone());
        Ok(Node::Test { place, check: self.check()? })
    }

    fn place(&mut self) -> Result<String, ConditionError> {
        match self.tokens.next_if(|(_, token)| matches!(token, Token::Place(_))) {
            Some((_, Token::Place(place))) => Ok(place),
            _ => Err(self.expected("a JSON pointer, `arguments.…`, `not` or `(`")),
        }
    }

    fn check(&mut self) -> Result<Check, ConditionError> {
        let word = self.tokens.next_if(|(_, token)| matches!(token, Token::Word(_)));
        let Some((column, Token::Word(word))) = word else {
            return Err(self.expected("a comparison"));
        };
        Ok(match word {
            "exists" => Check::Exists,
            "==" => Check::Equals(self.literal()?),
            "!=" => Check::Differs(self.literal()?),
            "<" => self.order(&[Less])?,
            "<=" => self.order(&[Less, Equal])?,
            ">" => self.order(&[Greater])?,
            ">=" => self.order(&[Greater, Equal])?,
            "in" => Check::In(self.list()?),
            "contains" => Check::Contains(self.literal()?),
            "starts_with" => self.head()?,
            _ => return Err(ConditionError { column, expected: "a comparison" }),
        })
    }

    fn literal(&mut self) -> Result<Value, ConditionError> {
        match self.tokens.next_if(|(_, token)| matches!(token, Token::Literal(_))) {
            Some((_, Token::Literal(value))) => Ok(value),
            _ => Err(self.expected("a text, a number, true, false or null")),
        }
    }

    fn order(&mut self, wanted: &'static [std::cmp::Ordering]) -> Result<Check, ConditionError> {
        let refusal = self.expected("a number");
        match self.literal() {
            Ok(Value::Number(number)) => Ok(Check::Orders(number, wanted)),
            _ => Err(refusal),
        }
    }

    fn head(&mut self) -> Result<Check, ConditionError> {
        let refusal = self.expected("a text");
        match self.literal() {
            Ok(Value::String(text)) => Ok(Check::StartsWith(text)),
            _ => Err(refusal),
        }
    }

    fn list(&mut self) -> Result<Vec<Value>, ConditionError> {
        self.need("[", "`[`")?;
        let mut literals = vec![self.literal()?];
        while self.eat(",") {
            literals.push(self.literal()?);
        }
        self.need("]", "`,` or `]`")?;
        Ok(literals)
    }
}
