// An NER experiment on few sentences: a fraction, ELMO_TRAIN_FRACTION, of the 200 in fixtures/, for 300 updates whatever the fraction.
local settings = import '../training_configs/lib/settings.libsonnet';

{
  local config = self,
  batch_size:: 10,
  local updates_per_epoch = 200 * settings.number('ELMO_TRAIN_FRACTION') / config.batch_size,
  train_data_path: 'fixtures/data/demo/entities.train.conll',
  validation_data_path: 'fixtures/data/demo/entities.dev.conll',
  trainer+: { num_epochs: std.round(300 / updates_per_epoch), patience: null },
}
