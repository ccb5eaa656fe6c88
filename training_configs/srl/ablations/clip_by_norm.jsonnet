// Semantic role labeling on OntoNotes with ELMo and the gradient clipped by its norm, as He et al.'s code does, and not
// by value, as the paper says.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/clip_by_norm.jsonnet -s runs/srl_clip_by_norm
//
// The paper: no figure.
(import '../elmo.jsonnet') + { trainer+: { grad_clipping:: null, grad_norm: 1.0 } }
