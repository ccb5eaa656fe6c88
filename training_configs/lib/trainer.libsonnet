// What every experiment's trainer shares.
local settings = import 'settings.libsonnet';

{
  // All three random seeds, from ELMO_SEED.
  seeds:: {
    local seed = settings.number('ELMO_SEED'),
    random_seed: seed,
    numpy_seed: seed,
    pytorch_seed: seed,
  },

  // The device, from ELMO_CUDA_DEVICE; AllenNLP's own choice when it isn't set: the first GPU, or the CPU.
  device:: if settings.string('ELMO_CUDA_DEVICE') == '' then {} else { cuda_device: settings.number('ELMO_CUDA_DEVICE') },

  // Checkpoints that a kill can't leave broken.
  checkpointer:: { checkpointer: { type: 'elmo::atomic' } },

  // Trains on a seeded fraction of the training set, between 0 and 1; smaller fractions lie inside larger ones. Validation data stay whole.
  fraction(fraction):: {
    local reader = super.dataset_reader,
    dataset_reader: { type: 'elmo::fraction', reader: reader, fraction: fraction },
    validation_dataset_reader: if 'validation_dataset_reader' in super then super.validation_dataset_reader else reader,
  },
}
