//! How Triton is started for an engine: one process, or one a GPU under `mpirun`. Pure.
//!
//! TensorRT-LLM's leader mode: every process loads the engine, the first one answers. The arguments are those of
//! upstream's `launch_triton_server.py` (triton-inference-server/tensorrtllm_backend, v0.16.0), which cannot be a
//! container's command itself, since it returns as soon as the processes run.

use slipway_vocabulary::serving::ENGINE_MODEL;

/// A Triton that serves an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The program.
    pub program: String,
    /// The model repository.
    pub repository: String,
    /// Processes of the engine, each with a GPU: tensor parallel x pipeline parallel.
    pub ranks: u32,
    /// Models that the first process loads at start. The engine is loaded at start wherever there are several
    /// processes, because Triton's API reaches only the first of them.
    pub models: Vec<String>,
    /// Arguments of every process.
    pub arguments: Vec<String>,
    /// Arguments of the process that answers.
    pub leader_arguments: Vec<String>,
}

impl Server {
    /// The command line, the program first.
    #[must_use]
    pub fn command(&self) -> Vec<String> {
        if self.ranks <= 1 {
            return self.leader();
        }
        let mut command = ["mpirun", "--allow-run-as-root"].map(str::to_owned).to_vec();
        for rank in 0..self.ranks {
            if rank > 0 {
                command.push(":".to_owned());
            }
            command.extend(["-n", "1"].map(str::to_owned));
            command.extend(if rank == 0 { self.leader() } else { self.follower() });
            // Processes of one machine share its memory by name.
            command.push(format!("--backend-config=python,shm-region-prefix-name=prefix{rank}_"));
        }
        command
    }

    fn leader(&self) -> Vec<String> {
        let engine = Some(ENGINE_MODEL).filter(|engine| self.ranks > 1 && !self.models.iter().any(|m| m == engine));
        let models: Vec<&str> = engine.into_iter().chain(self.models.iter().map(String::as_str)).collect();
        [self.process(&models), self.leader_arguments.clone()].concat()
    }

    /// It only computes: it opens no port, and loads nothing but the engine.
    fn follower(&self) -> Vec<String> {
        let closed = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"].map(str::to_owned);
        [self.process(&[ENGINE_MODEL]), closed.to_vec()].concat()
    }

    fn process(&self, models: &[&str]) -> Vec<String> {
        let mut command = vec![
            self.program.clone(),
            format!("--model-repository={}", self.repository),
            "--model-control-mode=explicit".to_owned(),
            "--disable-auto-complete-config".to_owned(),
        ];
        command.extend(models.iter().map(|model| format!("--load-model={model}")));
        command.extend(self.arguments.iter().cloned());
        command
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn server(ranks: u32, models: &[&str]) -> Server {
        Server {
            program: "tritonserver".to_owned(),
            repository: "/r".to_owned(),
            ranks,
            models: models.iter().map(|&model| model.to_owned()).collect(),
            arguments: vec!["--exit-timeout-secs=10".to_owned()],
            leader_arguments: vec!["--strict-readiness=false".to_owned()],
        }
    }

    #[test]
    fn an_engine_of_one_gpu_is_served_by_one_process() {
        assert_eq!(
            server(1, &["tensorrt_llm"]).command().join(" "),
            "tritonserver --model-repository=/r --model-control-mode=explicit --disable-auto-complete-config \
             --load-model=tensorrt_llm --exit-timeout-secs=10 --strict-readiness=false"
        );
    }

    #[test]
    fn an_engine_of_two_gpus_has_a_process_each_of_which_the_first_answers() {
        assert_eq!(
            server(2, &["tensorrt_llm"]).command().join(" "),
            "mpirun --allow-run-as-root -n 1 \
             tritonserver --model-repository=/r --model-control-mode=explicit --disable-auto-complete-config \
             --load-model=tensorrt_llm --exit-timeout-secs=10 --strict-readiness=false \
             --backend-config=python,shm-region-prefix-name=prefix0_ : -n 1 \
             tritonserver --model-repository=/r --model-control-mode=explicit --disable-auto-complete-config \
             --load-model=tensorrt_llm --exit-timeout-secs=10 --allow-http=false --allow-grpc=false \
             --allow-metrics=false --backend-config=python,shm-region-prefix-name=prefix1_"
        );
    }

    #[test]
    fn processes_that_belong_together_load_the_engine_at_once() {
        let alone = server(1, &[]).command();
        assert!(!alone.iter().any(|word| word.starts_with("--load-model")), "{alone:?}");
        let together = server(2, &[]).command();
        let loads = together.iter().filter(|word| *word == "--load-model=tensorrt_llm").count();
        assert_eq!(loads, 2, "{together:?}");
    }
}
