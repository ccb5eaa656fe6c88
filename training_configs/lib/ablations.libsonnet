// The paper's ablations, by name: each is what it changes in a task's elmo.jsonnet. <task>/ablation.jsonnet trains the
// one that ELMO_ABLATION names; `allennlp elmo-analyze ablations` trains a table of them.
local cove = import 'cove.libsonnet';
local elmo = import 'elmo.libsonnet';
local settings = import 'settings.libsonnet';
local trainer = import 'trainer.libsonnet';

local common = {
  // Table 2: which layers are mixed, and how strongly their weights are held together.
  top_layer_only: elmo.top_layer_only,
  lambda_1: elmo.lambda(1.0),
  lambda_0001: elmo.lambda(0.001),

  // Table 3: where ELMo enters.
  input_only: elmo.placements(['input']),
  input_and_output: elmo.placements(['input', 'output']),
  output_only: elmo.placements(['output']),

  // Table 7 of the camera-ready paper: the biLM's context-independent layer instead of word vectors, and ELMo without
  // them.
  token_layer_only: elmo.token_layer_only + elmo.placements(['input']) + elmo.without_word_vectors,
  without_word_vectors: elmo.without_word_vectors,

  // Section 5.1: CoVe in ELMo's place, its second biLSTM alone or all its layers.
  cove: cove.instead_of_elmo('top'),
  cove_all_layers: cove.instead_of_elmo('all'),

  // A.2: without the scale gamma.
  gamma_off: elmo.gamma_off,
  top_layer_only_gamma_off: elmo.top_layer_only + elmo.gamma_off,

  // Figure 1: part of the training set, ELMO_TRAIN_FRACTION of it, between 0 and 1.
  fraction: trainer.fraction(settings.number('ELMO_TRAIN_FRACTION')),
};

local own = {
  snli: {
    // A second dropout of 0.5, on ELMo's vectors themselves, as the other tasks have it.
    stacked_dropout: { elmo_dropout:: 0.5 },
  },
  squad: {
    // The end's head reads the start's, as in the baseline's own paper.
    chained_heads: { local config = self, model+: { heads: { type: 'chained', encoder: config.bigru } } },
  },
  srl: {
    // He et al. (2017) clip the gradient's norm; their code clips each value, as elmo.jsonnet does.
    clip_by_norm: { trainer+: { grad_clipping:: null, grad_norm: 1.0 } },
  },
  sst: {
    binary: { granularity:: '2-class' },
    input_and_integrated: elmo.placements(['input', 'integrated']),
    all_placements: elmo.placements(['input', 'output', 'integrated']),
    // McCann et al.'s maxout layers instead of ReLU.
    maxout: {
      model+: {
        local relu = super.feedforward,
        feedforward:: null,
        maxout: { num_layers: 2, output_dims: relu.hidden_dims, pool_sizes: 4, dropout: relu.dropout },
      },
    },
  },
};

{
  // All of a task's ablations: changes to its elmo.jsonnet, by name.
  of(task):: common + std.get(own, task, {}),

  // The experiment that ELMO_ABLATION names. A name that ends in _baseline changes the experiment without ELMo.
  select(task, baseline, experiment)::
    local changes = self.of(task) + { fraction_baseline: common.fraction };
    local name = settings.required('ELMO_ABLATION');
    if name in changes then (if std.endsWith(name, '_baseline') then baseline else experiment) + changes[name]
    else error "ELMO_ABLATION is '%s', but must be one of %s." % [name, std.join(', ', std.objectFields(changes))],
}
