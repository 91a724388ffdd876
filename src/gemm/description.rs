//! The description of a wanted plan, beside its device and epilogue.

use super::kernel::{Settings, SplitK, Switches};
use super::model::selection::Request;
use super::problem::property::Properties;
use super::problem::{Arithmetic, Knob, Major, OperandLayout, Problem};
use crate::ElementType;
use crate::tuning::Tuning;

/// The settings of a plan, beside its device and epilogue. The most variable fields are compared first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Description {
    pub(super) problem: Option<Problem>,
    /// The builder's requests, whether or not `problem` has them.
    pub(super) asked: Properties,
    pub(super) elements: Option<(ElementType, ElementType)>,
    pub(super) settings: Settings,
    pub(super) request: Request,
    pub(super) multiprocessors: Option<usize>,
    pub(super) tuning: Tuning,
}

impl Default for Description {
    fn default() -> Self {
        let layouts = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
        Self {
            problem: None,
            asked: Properties::default(),
            elements: None,
            settings: Settings { layouts, arithmetic: Arithmetic::default(), switches: Switches::default() },
            request: Request::default(),
            multiprocessors: None,
            tuning: Tuning::default(),
        }
    }
}

impl Description {
    /// The knobs that were set.
    pub(super) fn knobs(&self) -> impl Iterator<Item = Knob> + use<> {
        let Request { pins, exact, stages, split_k, finish } = &self.request;
        let turned = [
            (Knob::Tile, pins.tile.is_some()),
            (Knob::Stages, stages.is_some()),
            (Knob::SplitK, matches!(split_k, Some(SplitK::Serial(_) | SplitK::Parallel(_)))),
            (Knob::StreamK, matches!(split_k, Some(SplitK::Stream))),
            (Knob::Sm90, pins.sm90.is_some()),
            (Knob::Sm100, pins.sm100.is_some()),
            (Knob::Candidate, exact.is_some()),
            (Knob::Multiprocessors, self.multiprocessors.is_some()),
            (Knob::FastMath, self.settings.switches.fast_math),
            (Knob::DependentLaunch, self.settings.switches.dependent_launch),
            (Knob::Finish, finish.is_some()),
            (Knob::Tuning, self.tuning != Tuning::default()),
        ];
        turned.into_iter().filter(|(_, is_turned)| *is_turned).map(|(knob, _)| knob)
    }

    /// Unsets a knob.
    pub(super) fn reset(&mut self, knob: Knob) {
        match knob {
            Knob::Tile => self.request.pins.tile = None,
            Knob::Stages => self.request.stages = None,
            Knob::SplitK | Knob::StreamK => self.request.split_k = None,
            Knob::Sm90 => self.request.pins.sm90 = None,
            Knob::Sm100 => self.request.pins.sm100 = None,
            Knob::Candidate => self.request.exact = None,
            Knob::Multiprocessors => self.multiprocessors = None,
            Knob::FastMath => self.settings.switches.fast_math = false,
            Knob::DependentLaunch => self.settings.switches.dependent_launch = false,
            Knob::Finish => self.request.finish = None,
            Knob::Tuning => self.tuning = Tuning::default(),
        }
    }
}
