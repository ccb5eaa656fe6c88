// BiDAF with self-attention on SQuAD without ELMo, on part of the training set, as in Figure 1. ELMO_TRAIN_FRACTION
// says how much, from 0.001 to 1.
//
// Data: as in ../baseline.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/squad/ablations/fraction_baseline.jsonnet \
//     -s runs/squad_part
//
// The paper has curves for SNLI and SRL; fraction.jsonnet is the one with ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../baseline.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
