//! Units as fields of settings and of plugin configurations: strings, with a `format` that the checker knows.
use std::{borrow::Cow, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::units::{Duration, Percent, Rate, Size};

macro_rules! unit {
    ($($type:ident $format:literal $about:literal)*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(from)?;
                Self::from_str(&text).map_err(|it| D::Error::custom(it.message))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "format": $format, "description": $about})
            }
        }
    )*};
}

unit! {
    Duration "duration" "A number and `ms`, `s`, `m`, `h` or `d`."
    Size "size" "A number and `B`, `KiB`, `MiB` or `GiB`."
    Rate "rate" "`N/s`, `N/m`, `N/h`, `N/d` or `N/DURATION`."
    Percent "percent" "A number and `%`."
}
