// CoVe in ELMo's place, as in section 5.1: what to add to an experiment with ELMo.
//
//   (import 'snli/elmo.jsonnet') + (import 'lib/cove.libsonnet').instead_of_elmo('top')
//
// ELMO_COVE_FILE: wmtlstm-8f474287.pth of https://github.com/salesforce/cove; ELMO_WORD_VECTORS: glove.840B.300d.txt.
local settings = import 'settings.libsonnet';

{
  // At ELMo's placements, with its dropout; `layers` is 'top' or 'all'.
  instead_of_elmo(layers):: {
    dataset_reader+: { token_indexers+: { elmo:: null, cove: { type: 'elmo::words', namespace: 'cove' } } },
    model+: {
      text_embedder+: {
        local elmo = super.contextual,
        contextual: {
          type: 'cove',
          pretrained_file: settings.required('ELMO_COVE_FILE'),
          words: {
            type: 'elmo::word_vectors',
            name: 'cove',
            vocab_namespace: 'cove',
            embedding_dim: 300,
            pretrained_file: settings.required('ELMO_WORD_VECTORS'),
            trainable: false,
          },
          placements: elmo.placements,
          layers: layers,
          [if 'dropout' in elmo then 'dropout']: elmo.dropout,
          [if 'layer_norm' in elmo then 'layer_norm']: elmo.layer_norm,
        },
      },
    },
  },
}
