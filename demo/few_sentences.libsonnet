// An NER experiment on few sentences: a fraction, ELMO_TRAIN_FRACTION, of the 200 in fixtures/, for 300 updates
// whatever the fraction.
local settings = import '../training_configs/lib/settings.libsonnet';
local trainer = import '../training_configs/lib/trainer.libsonnet';

trainer.fraction(settings.number('ELMO_TRAIN_FRACTION')) + {
  batch_size:: 10,
  train_data_path: 'fixtures/data/demo/entities.train.conll',
  validation_data_path: 'fixtures/data/demo/entities.dev.conll',
  data_loader+: { batches_per_epoch: 20 },
  validation_data_loader: { batch_size: 50 },
  trainer+: { num_epochs: 15, patience: null },
}
