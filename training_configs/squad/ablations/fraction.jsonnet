// BiDAF with self-attention on SQuAD with ELMo, on part of the training set, as in Figure 1. ELMO_TRAIN_FRACTION says
// how much, from 0.001 to 1.
//
// Data: as in ../elmo.jsonnet.
//
//   ELMO_TRAIN_FRACTION=0.01 allennlp train training_configs/squad/ablations/fraction.jsonnet -s runs/squad_elmo_part
//
// The paper has curves for SNLI and SRL; fraction_baseline.jsonnet is the one without ELMo.
local settings = import '../../lib/settings.libsonnet';
local trainer = import '../../lib/trainer.libsonnet';

(import '../elmo.jsonnet') + trainer.fraction(settings.number('ELMO_TRAIN_FRACTION'))
