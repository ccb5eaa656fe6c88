// A biLM trained as the original was (Sec. 3.4; bilm-tf): packed windows of 20 tokens with the LSTM states carried
// along, sampled softmax with 8192 negatives, dropout 0.1, Adagrad. Sizes and batches are the paper's; small.jsonnet
// and the fixture change them.
local data = import '../lib/data.libsonnet';
local trainer = import '../lib/trainer.libsonnet';

{
  local config = self,
  num_steps:: 20,
  batch_size:: 128,
  learning_rate:: 0.2,
  num_epochs:: 10,

  dataset_reader: { type: 'elmo::bilm' },
  train_data_path: data.path('ELMO_BILM_TRAIN'),
  validation_data_path: data.path('ELMO_BILM_DEV'),
  vocabulary: { type: 'elmo::bilm', data_path: config.train_data_path, min_count: 3 },
  data_loader: { type: 'elmo::windows', batch_size: config.batch_size, num_steps: config.num_steps },
  validation_data_loader: self.data_loader { shuffle: false },
  model: {
    type: 'elmo::bilm',
    // The switch for TF32 in the LSTMs' multiplies on a GPU; 'float32' turns it off, 'bfloat16' goes further. A CPU has
    // no TF32.
    bilm: { type: 'random', dropout: 0.1, precision: 'tf32' },
    softmax: { type: 'sampled', num_samples: 8192, sparse: true },
    dropout: 0.1,
  },
  trainer: trainer.device {
    type: 'elmo::bilm',
    // torch starts Adagrad's accumulator at 0, which moves every weight by the whole learning rate in the first step.
    optimizer: { type: 'adagrad', lr: config.learning_rate, initial_accumulator_value: 1.0 },
    // The original's gradient is that of the loss times the window's length.
    loss_multiplier: config.num_steps,
    grad_norm: 10.0,
    num_epochs: config.num_epochs,
    validation_metric: '-perplexity',
    checkpointer: { type: 'elmo::atomic', save_every_num_seconds: 600 },
  },
}
