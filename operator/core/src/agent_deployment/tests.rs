//! What comes next, told as stories and as properties. Both are played on a small cluster that carries plans out.

mod alerts;
mod announcements;
mod approval;
mod autoscaling;
mod baseline_histories;
mod budgets;
mod canary;
mod capacity;
mod capacity_histories;
mod cluster;
mod drift;
mod fixtures;
mod in_place;
mod layouts;
mod no_build;
mod predictions;
mod profiling;
mod properties;
mod quality;
mod reprofiling;
mod rollouts;
mod routing;
mod shown;
mod stories;
mod tensorrt_llm;
mod trial;
