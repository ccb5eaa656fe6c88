// A part of the training phrases, without ELMo: one point of a curve like Figure 1's (0.1 % to 100 %; the paper draws
// SNLI and SRL).
//
// Data and variables: as in ../baseline.jsonnet, and the fraction. Smaller fractions lie inside larger ones.
//
//   export ELMO_TRAIN_FRACTION=0.01
//   allennlp train training_configs/sst/ablations/fraction_baseline.jsonnet -s runs/sst_fraction_baseline
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../baseline.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
