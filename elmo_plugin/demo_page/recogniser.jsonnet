// The entity recogniser of a page that was given no archive: ELMo and a small biLSTM-CRF, trained in seconds on the
// invented sentences of entities.txt beside it. train_data_path is added by recogniser.py.
local bilstm(dim) = { type: 'elmo::lstm', hidden_size: dim, num_layers: 1, bidirectional: true };

{
  dataset_reader: {
    type: 'elmo::ner',
    coding_scheme: 'BIOUL',
    token_indexers: { elmo: { type: 'elmo::characters' } },
  },
  model: {
    type: 'elmo::ner',
    coding_scheme: 'BIOUL',
    text_embedder: { contextual: { type: 'elmo', bilm: 'wiki-small', placements: ['input'], dropout: 0.0 } },
    lower_encoder: bilstm(64),
    upper_encoder: bilstm(64),
    dropout: 0.5,
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 20, sorting_keys: ['tokens'] } },
  trainer: { optimizer: { type: 'adam', lr: 0.002 }, grad_norm: 5.0, num_epochs: 12, cuda_device: -1 },
}
