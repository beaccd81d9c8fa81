//! Values of JSON whose objects keep the order in which their keys were written. Pure.
//!
//! Models read a schema in its order, and an engine that is held to one writes properties in it. `serde_json` sorts
//! keys, so schemas of clients and of MCP servers are kept here.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Number, Value};

/// A value of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrderedValue {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<OrderedValue>),
    /// An object.
    Object(OrderedMap),
}

/// The members of an object. Of a key that is written twice the last value counts, in the place of the first, as in
/// Python.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderedMap(Vec<(String, OrderedValue)>);

impl OrderedValue {
    /// An object of these members.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// A member, if it is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Object(members) => members.get_mut(name),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// What these names lead to, one object after the other.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&OrderedMap> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// The items of a list.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(boolean) = self { Some(*boolean) } else { None }
    }

    /// A whole number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.as_object().is_some()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }
}

impl OrderedMap {
    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&OrderedValue> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut OrderedValue> {
        self.0.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets the value of a key; a new one is the last.
    pub fn insert(&mut self, name: &str, value: OrderedValue) {
        match self.get_mut(name) {
            Some(known) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<OrderedValue> {
        let place = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(place).1)
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OrderedValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, OrderedValue)> for OrderedMap {
    fn from_iter<T: IntoIterator<Item = (String, OrderedValue)>>(members: T) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut all: Vec<(String, OrderedValue)> = Vec::new();
        for (name, value) in members {
            match places.get(&name).and_then(|place| all.get_mut(*place)) {
                Some((_, known)) => *known = value,
                None => {
                    places.insert(name.clone(), all.len());
                    all.push((name, value));
                }
            }
        }
        Self(all)
    }
}

/// As JSON without blanks.
impl fmt::Display for OrderedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<Value> for OrderedValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(boolean) => Self::Bool(boolean),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<Map<String, Value>> for OrderedMap {
    fn from(members: Map<String, Value>) -> Self {
        Self(members.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

impl From<OrderedValue> for Value {
    fn from(value: OrderedValue) -> Self {
        match value {
            OrderedValue::Null => Self::Null,
            OrderedValue::Bool(boolean) => Self::Bool(boolean),
            OrderedValue::Number(number) => Self::Number(number),
            OrderedValue::String(text) => Self::String(text),
            OrderedValue::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            OrderedValue::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<OrderedMap> for Map<String, Value> {
    fn from(OrderedMap(members): OrderedMap) -> Self {
        members.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

impl Serialize for OrderedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(boolean) => serializer.serialize_bool(*boolean),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

impl Serialize for OrderedMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for OrderedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

impl<'de> Deserialize<'de> for OrderedMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = OrderedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Null)
    }

    fn visit_none<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<OrderedValue, D::Error> {
        OrderedValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Bool(boolean))
    }

    fn visit_i64<E>(self, number: i64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<OrderedValue, E> {
        Ok(Number::from_f64(number).map_or(OrderedValue::Null, OrderedValue::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<OrderedValue, E> {
        Ok(OrderedValue::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<OrderedValue, E> {
        Ok(OrderedValue::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedValue, A::Error> {
        let next = std::iter::from_fn(|| items.next_element().transpose());
        next.collect::<Result<_, _>>().map(OrderedValue::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<OrderedValue, A::Error> {
        Members.visit_map(members).map(OrderedValue::Object)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = OrderedMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OrderedMap, A::Error> {
        std::iter::from_fn(|| members.next_entry().transpose()).collect()
    }
}

/// Others are read from it as they are from a [`Value`].
impl<'de> Deserializer<'de> for OrderedValue {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(boolean) => visitor.visit_bool(boolean),
            Self::Number(number) => number.deserialize_any(visitor),
            Self::String(text) => visitor.visit_string(text),
            Self::Array(items) => SeqDeserializer::new(items.into_iter()).deserialize_any(visitor),
            Self::Object(OrderedMap(members)) => MapDeserializer::new(members.into_iter()).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        Value::from(self).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, serde_json::Error> for OrderedValue {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests;
