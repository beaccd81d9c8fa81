//! The status of a Profile. Pure.

use std::collections::BTreeMap;

use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        ProfileStatus,
        profile::{HourlyPrice, Measurement, MeasurementPurpose, ProfilePhase},
    },
};
use slipway_selection::cost::{ReplicaPrice, gpus};

use super::world::ProfileWorld;
use crate::conditions::{Draft, dated};

/// Characters of `status.message`.
const MAX_MESSAGE: usize = 1024;

/// Where a campaign stands after a look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CampaignState {
    /// It has ended with a choice, or with the finding that there is none.
    Ended {
        /// Chosen or infeasible.
        phase: ProfilePhase,
        /// In words.
        message: String,
    },
    /// It goes on by itself.
    Working {
        /// What it does.
        purpose: MeasurementPurpose,
        /// Why it is not further.
        reason: Reason,
        /// In words.
        message: String,
    },
    /// It could not be carried out.
    Failed {
        /// In words, with the remedy.
        message: String,
    },
}

/// Where a campaign stood when its status was written, if it had ended.
pub fn ended(status: &ProfileStatus) -> Option<CampaignState> {
    let message = status.message.clone();
    match status.phase? {
        phase @ (ProfilePhase::Chosen | ProfilePhase::Infeasible) => Some(CampaignState::Ended { phase, message }),
        ProfilePhase::Failed => Some(CampaignState::Failed { message }),
        ProfilePhase::Exploring | ProfilePhase::Confirming => None,
    }
}

/// Completes what was found out with everything that follows from where the campaign stands.
pub fn complete(world: &ProfileWorld, state: CampaignState, found: ProfileStatus) -> ProfileStatus {
    let draft =
        |condition, is_true, reason, message: &str| Draft { condition, is_true, reason, message: message.to_owned() };
    let idle = |condition| draft(condition, false, Reason::UpToDate, "nothing is in progress");
    let (phase, message, drafts) = match state {
        CampaignState::Ended { phase, message } => {
            let reason = match phase {
                ProfilePhase::Infeasible => Reason::NoFeasibleConfiguration,
                ProfilePhase::Chosen | ProfilePhase::Exploring | ProfilePhase::Confirming | ProfilePhase::Failed => {
                    Reason::ConfigurationFound
                }
            };
            let drafts = [
                draft(ConditionType::Ready, true, reason, &message),
                idle(ConditionType::Reconciling),
                idle(ConditionType::Stalled),
            ];
            (phase, message, drafts)
        }
        CampaignState::Working { purpose, reason, message } => {
            let phase = match purpose {
                MeasurementPurpose::Explore | MeasurementPurpose::Repeat => ProfilePhase::Exploring,
                MeasurementPurpose::Confirm => ProfilePhase::Confirming,
            };
            let drafts = [
                draft(ConditionType::Ready, false, reason, &message),
                draft(ConditionType::Reconciling, true, reason, &message),
                idle(ConditionType::Stalled),
            ];
            (phase, message, drafts)
        }
        CampaignState::Failed { message } => {
            let reason = Reason::ProfilingFailed;
            let drafts = [
                draft(ConditionType::Ready, false, reason, &message),
                idle(ConditionType::Reconciling),
                draft(ConditionType::Stalled, true, reason, &message),
            ];
            (ProfilePhase::Failed, message, drafts)
        }
    };
    let found = priced(world, found);
    let own = found.measurements.iter().filter(|row| row.measured_in.is_none());
    let dated = |draft| dated(draft, &world.status.conditions, (world.generation, world.now));
    ProfileStatus {
        observed_generation: Some(world.generation),
        phase: Some(phase),
        message: message.chars().take(MAX_MESSAGE).collect(),
        rows: i32::try_from(found.measurements.len()).unwrap_or(i32::MAX),
        gpu_milliseconds: own.map(|row| row.gpu_milliseconds).sum(),
        conditions: drafts.into_iter().map(dated).collect(),
        ..found
    }
}

/// The status with the prices that costs are compared by, or that the operator's configuration has for these pods. All
/// rows have what they cost: also those that were measured before there was a price, and at another one.
fn priced(world: &ProfileWorld, found: ProfileStatus) -> ProfileStatus {
    let inputs = &world.spec.inputs;
    let held = gpus(inputs);
    let products = inputs.gpu_products();
    let configured = |of: &BTreeMap<String, String>| world.settings.prices.of(of, held).ok();
    let only = || found.price.clone().or_else(|| inputs.price.clone());
    let price = only().or_else(|| configured(&inputs.placement.node_selector)).filter(|_| products.is_empty());
    // A GPU model that has none yet gets one as soon as the configuration has it.
    let of_product = |product: &str| {
        let is_its = |price: &&HourlyPrice| price.gpu_product.as_deref() == Some(product);
        let known = inputs.prices.iter().chain(&found.prices).find(is_its).cloned();
        known.or_else(|| configured(&inputs.node_selector_with(product)))
    };
    let prices: Vec<HourlyPrice> = products.iter().filter_map(|product| of_product(product)).collect();
    let with_cost = |row: Measurement| match inputs.priced_by((price.as_ref(), &prices), &row.engine) {
        Some(price) => Measurement { cost: ReplicaPrice::of(price, held).of_row(&row), ..row },
        None if !products.is_empty() => Measurement { cost: None, ..row },
        None => row,
    };
    let measurements = found.measurements.into_iter().map(with_cost).collect();
    ProfileStatus { measurements, price, prices, ..found }
}

/// The text, cut to what a field of the status holds.
pub fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
