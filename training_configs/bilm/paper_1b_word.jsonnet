// The paper's biLM (Sec. 3.4): 4096 cells, 512-d projection, 2048 character filters, 10 epochs on the 1B Word
// Benchmark. The paper's figure: 39.7, the average of the forward and backward perplexity on held-out text.
//
// Data: the benchmark's training-monolingual.tokenized.shuffled folder and held-out shards; ELMO_BILM_VOCAB is its
// vocabulary of 793,471 words in bilm-tf's form. As in the original, on three GPUs with a batch of 128 on each:
//
//   allennlp train training_configs/bilm/paper_1b_word.jsonnet -s runs/bilm_1b -o '{"distributed": {"cuda_devices": [0, 1, 2]}}'
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';

trainer.experiment((import 'base.libsonnet') {
  vocabulary: { type: 'elmo::bilm', vocab_file: data.path('ELMO_BILM_VOCAB') },
  trainer+: {
    // Distributed training can't save by the clock.
    checkpointer: { type: 'elmo::atomic', save_every_num_batches: 10000 },
  },
})
