//! What to write where a pattern asks for it. An API server answers a text that does not match with the pattern alone;
//! a rule beside the pattern says it in words.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use crate::values::{
    DURATION_PATTERN, NON_NEGATIVE_DECIMAL_PATTERN, PENALTY_PATTERN, PERCENT_PATTERN, POSITIVE_DECIMAL_PATTERN,
    TEMPERATURE_PATTERN, TOP_P_PATTERN,
};

/// Each pattern of a spec, with what to write.
const WORDS: &[(&str, &str)] = &[
    (DURATION_PATTERN, "write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"),
    (PERCENT_PATTERN, "write a number from 0% to 100%, such as 2% or 0.1%"),
    (POSITIVE_DECIMAL_PATTERN, "write a number above 0 with at most four places, such as 1.5 or 20"),
    (NON_NEGATIVE_DECIMAL_PATTERN, "write 0 or a number above it with at most four places, such as 0.5 or 20"),
    (TEMPERATURE_PATTERN, "write a number from 0 to 2 with at most four places, such as 0.7"),
    (TOP_P_PATTERN, "write a number above 0 and up to 1 with at most four places, such as 0.95"),
    (PENALTY_PATTERN, "write a number from -2 to 2 with at most three places, such as 0.5 or -1"),
    (
        r"^(hf|pvc|https?)://[^\s]+$",
        "write the model's location: hf://organization/name@revision, pvc://claim/path, https://host/folder/ or https://host/model.tar",
    ),
    (r"^https?://[^\s]+$", "write a URL that begins with http:// or https://"),
    (r"^https://[^\s]+$", "write a URL that begins with https://"),
    (r"^(/.*)?$", "write a JSON Pointer, which begins with a slash, such as /value"),
    (
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "write lowercase letters, digits and dashes, with a letter first and no dash last, such as fast-answer",
    ),
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "write lowercase letters, digits and dashes, with no dash first or last, such as int8-small",
    ),
    (r"^[a-z][a-z0-9_]*$", "write lowercase letters, digits and underscores, with a letter first, such as look_up"),
    (r"^[a-zA-Z][a-zA-Z0-9_]*$", "write letters, digits and underscores, with a letter first, such as orderId"),
    (
        r"^([a-zA-Z][a-zA-Z0-9_-]*)?$",
        "write letters, digits, dashes and underscores, with a letter first, such as shop_, or nothing",
    ),
    (
        r"^[A-Za-z][A-Za-z0-9_.-]*$",
        "write letters, digits, dots, dashes and underscores, with a letter first, such as max_batch",
    ),
    (
        r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        "write letters, digits, dots, dashes and underscores, with a letter or a digit first, such as react-256",
    ),
    (
        r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        "write letters, digits, dots, dashes and underscores, with a letter or a digit first, such as 16",
    ),
    (
        r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$",
        "write a folder of the checkpoint without slashes at its ends, such as adapters/support",
    ),
    (
        r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
        "write the value of the node label nvidia.com/gpu.product, such as NVIDIA-L40S",
    ),
    (r"^[A-Za-z0-9_+/-]+$", "write the name of a time zone, such as Europe/Berlin or UTC"),
    (r"^[0-9]+\.[0-9]+(\.[0-9]+(\.post[0-9]+)?)?$", "write a version of TensorRT-LLM, such as 0.16.0 or 1.2.1"),
    (r"^[0-9]+\.[0-9]+(\.[0-9]+)?(rc[0-9]+|\.post[0-9]+)?$", "write a version of TensorRT-LLM, such as 1.2.1"),
    (r"^[0-9]+\.[0-9]+(\.[0-9]+){0,2}(rc[0-9]+|\.post[0-9]+)?$", "write a version of vLLM, such as 0.11.0"),
    (r"^[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+|\.post[0-9]+)?$", "write a version of SGLang, such as 0.5.9"),
    (r"^[0-9]{1,4}(\.[0-9]{1,4}){1,2}$", "write a version of NVIDIA's driver, such as 580.65.06"),
    (r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$", "write a quantity, such as 1, 500m or 4Gi"),
];

/// Adds to each pattern below a schema the rule that says it in words.
pub(crate) fn say_patterns_in_words(schema: &mut JSONSchemaProps) {
    if let Some(rule) = schema.pattern.as_deref().and_then(rule) {
        schema.x_kubernetes_validations.get_or_insert_default().push(rule);
    }
    for_each_below(schema, say_patterns_in_words);
}

fn rule(pattern: &str) -> Option<ValidationRule> {
    let (_, words) = WORDS.iter().find(|(known, _)| *known == pattern)?;
    Some(ValidationRule {
        rule: format!("self.matches(r'{pattern}')"),
        message: Some((*words).to_owned()),
        ..ValidationRule::default()
    })
}

fn for_each_below(schema: &mut JSONSchemaProps, mut visit: impl FnMut(&mut JSONSchemaProps)) {
    schema.properties.iter_mut().flat_map(|below| below.values_mut()).for_each(&mut visit);
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        visit(item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        visit(value);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_pattern_that_a_user_can_miss_is_said_in_words() {
        let mut definitions = crate::definitions();
        let mut silent = Vec::new();
        for definition in &mut definitions {
            let schema = definition.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            collect_silent(schema.properties.as_mut().unwrap().get_mut("spec").unwrap(), &mut silent);
        }
        assert_eq!(silent, Vec::<String>::new());
    }

    fn collect_silent(schema: &mut JSONSchemaProps, silent: &mut Vec<String>) {
        if let Some(pattern) = &schema.pattern
            && schema.x_kubernetes_validations.is_none()
        {
            silent.push(pattern.clone());
        }
        for_each_below(schema, |below| collect_silent(below, silent));
    }
}
