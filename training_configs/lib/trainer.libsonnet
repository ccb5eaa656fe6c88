// What every experiment's trainer shares.
local settings = import 'settings.libsonnet';

local seeds = {
  local seed = settings.number('ELMO_SEED'),
  random_seed: seed,
  numpy_seed: seed,
  pytorch_seed: seed,
};

{
  // A whole experiment: all three random seeds, from ELMO_SEED, and the knobs, which are its hidden fields, as
  // ELMO_KNOBS has them:
  //
  //   ELMO_KNOBS='{"batch_size": 16, "learning_rate": 0.0005}' allennlp train training_configs/ner/elmo.jsonnet -s runs/ner
  experiment(config)::
    local chosen = settings.object('ELMO_KNOBS');
    local knobs = [name for name in std.objectFieldsAll(config) if !std.objectHas(config, name)];
    local unknown = std.setDiff(std.objectFields(chosen), knobs);
    assert unknown == [] : "ELMO_KNOBS has '%s', but this experiment's knobs are %s." % [unknown[0], std.join(', ', knobs)];
    seeds + config + chosen,

  // The device, from ELMO_CUDA_DEVICE; AllenNLP's own choice when it isn't set: the first GPU, or the CPU.
  device:: if settings.string('ELMO_CUDA_DEVICE') == '' then {} else { cuda_device: settings.number('ELMO_CUDA_DEVICE') },

  // A trainer for any model, on that device: killed at any moment and started again with --recover, it ends with the
  // same parameters.
  resumable:: self.device { type: 'elmo::resumable', checkpointer: { type: 'elmo::atomic' } },

  // Trains on a seeded fraction of the training set, between 0 and 1; smaller fractions lie inside larger ones.
  // Validation data stay whole.
  fraction(fraction):: {
    local reader = super.dataset_reader,
    dataset_reader: { type: 'elmo::fraction', reader: reader, fraction: fraction },
    validation_dataset_reader: if 'validation_dataset_reader' in super then super.validation_dataset_reader else reader,
  },
}
