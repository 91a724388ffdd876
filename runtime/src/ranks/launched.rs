//! Which rank a process is, as its launcher says.

use crate::error::Result;
use crate::error::ranks::CommunicatorError;

/// The variables of each launcher: the rank, the number of ranks, and the rank on this computer.
const LAUNCHERS: [[&str; 3]; 4] = [
    // torchrun, and what follows its example.
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    // Open MPI's mpirun.
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    // The mpirun of MPICH and Intel MPI.
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    // srun. Last: mpirun under Slurm sets its own as well.
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

/// A process among those that a launcher has started.
///
/// ```
/// use epilogue_runtime::LaunchedRank;
///
/// // Without a launcher: alone.
/// let me = LaunchedRank::from_environment()?.unwrap_or_default();
/// assert!(me.rank < me.ranks);
/// # Ok::<(), epilogue_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Its rank, from 0.
    pub rank: usize,
    /// The number of ranks, on all computers.
    pub ranks: usize,
    /// Its rank among those on this computer: the ordinal of its GPU, if the launcher shows each process all GPUs.
    pub local_rank: usize,
}

impl Default for LaunchedRank {
    /// The only one.
    fn default() -> Self {
        Self { rank: 0, ranks: 1, local_rank: 0 }
    }
}

impl LaunchedRank {
    /// The variables that the launcher has put into the environment; `None` without a launcher.
    ///
    /// | launcher | rank | number of ranks | rank on this computer |
    /// |---|---|---|---|
    /// | `torchrun` | `RANK` | `WORLD_SIZE` | `LOCAL_RANK` |
    /// | `mpirun` (Open MPI) | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK` |
    /// | `mpirun` (MPICH, Intel MPI) | `PMI_RANK` | `PMI_SIZE` | `MPI_LOCALRANKID` |
    /// | `srun` | `SLURM_PROCID` | `SLURM_NTASKS` | `SLURM_LOCALID` |
    ///
    /// The first launcher in this order whose first two variables are set is taken. Without the third, the rank on this
    /// computer is the rank.
    ///
    /// # Errors
    /// [`CommunicatorError::Environment`] for a variable that is not a number; [`CommunicatorError::Rank`].
    pub fn from_environment() -> Result<Option<Self>> {
        Ok(Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, CommunicatorError> {
        let number = |name: &'static str| match variable(name).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => match value.parse::<usize>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(CommunicatorError::Environment { variable: name, value, needed: "a number, from 0" }),
            },
        };
        for [rank, ranks, local_rank] in LAUNCHERS {
            if let (Some(rank), Some(ranks)) = (number(rank)?, number(ranks)?) {
                let me = Self { rank, ranks, local_rank: number(local_rank)?.unwrap_or(rank) };
                return me.check().map(|()| Some(me));
            }
        }
        Ok(None)
    }

    /// # Errors
    /// [`CommunicatorError::Rank`] unless the rank is below the number of ranks.
    pub(super) fn check(&self) -> Result<(), CommunicatorError> {
        let Self { rank, ranks, .. } = *self;
        if rank < ranks { Ok(()) } else { Err(CommunicatorError::Rank { rank, ranks }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<LaunchedRank>, CommunicatorError> {
        LaunchedRank::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_launcher_is_understood() {
        let me = |rank, ranks, local_rank| Ok(Some(LaunchedRank { rank, ranks, local_rank }));
        assert_eq!(of(&[("RANK", "9"), ("WORLD_SIZE", "16"), ("LOCAL_RANK", "1")]), me(9, 16, 1));
        assert_eq!(of(&[("PMI_RANK", "2"), ("PMI_SIZE", "3")]), me(2, 3, 2));
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_NTASKS", "6"), ("SLURM_LOCALID", "0")];
        assert_eq!(of(&slurm), me(5, 6, 0));
        let both = [&slurm[..], &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")]].concat();
        assert_eq!(of(&both), me(1, 2, 1), "mpirun under Slurm");
        assert_eq!(of(&[("RANK", "0"), ("HOME", "/")]), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |variables: &[_]| of(variables).expect_err("refused").to_string();
        assert_eq!(said(&[("RANK", "one"), ("WORLD_SIZE", "2")]), "RANK is `one`; it must be a number, from 0");
        assert!(said(&[("RANK", "2"), ("WORLD_SIZE", "2")]).starts_with("rank 2 of 2"));
        assert!(said(&[("RANK", "0"), ("WORLD_SIZE", "0")]).starts_with("rank 0 of 0"));
    }
}
