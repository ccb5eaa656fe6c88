// A part of the training phrases, with ELMo: one point of a curve like Figure 1's (0.1 % to 100 %; the paper draws SNLI
// and SRL).
//
// Data and variables: as in ../elmo.jsonnet, and the fraction. Smaller fractions lie inside larger ones.
//
//   export ELMO_TRAIN_FRACTION=0.01
//   allennlp train training_configs/sst/ablations/fraction.jsonnet -s runs/sst_fraction
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../elmo.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
