"""Holds what other libraries call our keywords, methods and tasks, each with what to say of it."""

from __future__ import annotations

from roberta_hub.errors import Remedy

KEYWORDS = {
    "add_special_tokens": ("", "encode always adds <s> and </s>, tokenize gives the pieces alone"),
    "aggregation_strategy": ("aggregation", "first, average and max are theirs, piece is simple"),
    "batch_size": ("batch_tokens", "a batch is so many tokens, not texts"),
    "candidate_labels": ("labels", ""),
    "convert_to_numpy": ("", "what comes out is a torch tensor; .numpy() converts it"),
    "convert_to_tensor": ("", "what comes out is a torch tensor"),
    "device": ("", "the model runs where it lies: load_model(..., device=...) or .to(device)"),
    "doc_stride": ("stride", ""),
    "handle_impossible_answer": ("no_answer", ""),
    "hypothesis_template": ("hypothesis", ""),
    "inputs": ("texts", ""),
    "is_split_into_words": ("", "pass whole texts"),
    "max_answer_len": ("max_answer_tokens", ""),
    "max_length": ("truncate", "truncate=True cuts at the model's length"),
    "max_seq_len": ("truncate", "truncate=True cuts at the model's length"),
    "multi_class": ("multi_label", ""),
    "normalize_embeddings": (
        "",
        "embed normalizes as the model says, features(normalize=True) too",
    ),
    "k": ("topk", ""),
    "num_labels": ("num_classes", ""),
    "num_workers": ("", "torch.set_num_threads says how many cores work"),
    "padding": ("", "nothing is padded here; collate_tokens pads ids to a batch"),
    "precision": ("dtype", "embed(texts, dtype='int8') makes the same bytes"),
    "return_all_scores": ("", "Prediction.scores has them all"),
    "return_tensors": ("", "what comes out is a torch tensor"),
    "sentences": ("texts", ""),
    "show_progress_bar": ("progress", ""),
    "skip_special_tokens": ("", "decode leaves special tokens out"),
    "text": ("texts", ""),
    "text_pair": ("", "a pair is a tuple: [(first, second)]"),
    "top_k": ("topk", ""),
    "truncation": ("truncate", "truncate=True cuts texts that are too long"),
}
"""Keywords of transformers and sentence-transformers, each with (our keyword, what to know of it).

Where our keyword is "", there is none, and the second part says what to do instead."""

_APART = (
    "one table holds texts and labels, fit({'text': X, 'label': y}); RobertaClassifier().fit(X, y) "
    "takes them apart"
)
FITTING = {
    "C": ("", "how strongly a regression is held is chosen by cross-validation"),
    "X": ("table", _APART),
    "class_weight": ("balance", "balance=True counts rare classes as much as frequent ones"),
    "class_weights": ("balance", "balance=True counts rare classes as much as frequent ones"),
    "cv": ("", "with under 200 rows the scores are cross-validated; valid= holds rows out"),
    "data": ("table", ""),
    "dataset": ("table", ""),
    "early_stopping": ("", "the rows held out choose nothing, so that their scores are honest"),
    "eval_dataset": ("valid", "a table of rows to measure on, or the share to hold out"),
    "evals": ("valid", "a table of rows to measure on, or the share to hold out"),
    "file": ("table", ""),
    "label_column": ("label", ""),
    "labels": ("label", "the name of the column; " + _APART),
    "lr": ("learning_rate", ""),
    "max_epochs": ("epochs", ""),
    "max_iter": ("epochs", "how often each row is seen"),
    "max_len": ("max_length", ""),
    "max_seq_len": ("max_length", ""),
    "max_seq_length": ("max_length", ""),
    "model_name": ("model", ""),
    "model_name_or_path": ("model", ""),
    "n_epochs": ("epochs", ""),
    "n_iter": ("epochs", "how often each row is seen"),
    "n_jobs": ("", "torch.set_num_threads says how many cores work"),
    "n_trials": ("trials", ""),
    "nb_epoch": ("epochs", ""),
    "num_epochs": ("epochs", ""),
    "num_train_epochs": ("epochs", ""),
    "output_dir": ("output", ""),
    "output_path": ("output", ""),
    "path": ("table", ""),
    "per_device_train_batch_size": ("batch_size", ""),
    "random_seed": ("seed", ""),
    "random_state": ("seed", ""),
    "sample_weight": ("weight", "the name of a column of the table"),
    "stratify": ("", "the same share of each class is held out anyway"),
    "target": ("label", "the name of the labels' column"),
    "test_size": ("valid", "the share of rows to hold out"),
    "text_column": ("text", ""),
    "texts": ("text", "the name of the column; " + _APART),
    "threshold": (
        "",
        "a threshold for each label is chosen; thresholds[head] = [...] of the model sets others",
    ),
    "train_dataset": ("table", ""),
    "train_size": ("valid", "the share of rows to hold out, 1 less the share to learn"),
    "val_size": ("valid", "the share of rows to hold out"),
    "validation_split": ("valid", "the share of rows to hold out"),
    "verbose": ("progress", ""),
    "warm_start": ("", "model= names the model to begin with"),
    "y": ("table", _APART),
}
"""Keywords of scikit-learn, transformers, Keras and others to train, each with `fit`'s own."""
FITTERS = ("fit", "RobertaClassifier")
"""What takes `fit`'s keywords."""

OF_A_VERB = {
    **{
        ("encode", name): "encode cuts nothing, and verbs take truncate=True"
        for name in ("max_length", "truncation", "truncate")
    },
    **{
        (verb, name): advice
        for verb in ("evaluate", "compare")
        for name, advice in (
            ("label_column", "say label="),
            ("sample_weight", "say weight=: the name of a column of the table"),
            (
                "separator",
                "where a text may have several labels, the models' own names between "
                "commas, semicolons or bars are taken apart",
            ),
            ("text_column", "say text="),
            ("texts", "say text=: the name of the column"),
            ("valid", "all rows of a table are judged"),
        )
    },
    **{
        ("evaluate", name): "say task=: a path, a data frame, a dict of columns, a list of dicts"
        for name in ("data", "dataset", "file", "path", "table")
    },
    **{
        ("compare", name): "each row counts the same in McNemar's test; evaluate(model, table, "
        "weight=...) weighs the rows"
        for name in ("sample_weight", "weight")
    },
    ("compare", "kind"): "say verb=: 'classify' or 'embed'",
    ("compare", "labels"): "the table has the models' own labels; evaluate(model, table, "
    "labels={...}) maps others to them",
    ("compare", "task"): "say verb=: 'classify' or 'embed'",
    ("classify", "top_k"): "each answer's .scores has all labels",
    ("zero_shot", "top_k"): "each answer's .scores has all labels",
}
"""What is said of a keyword by one verb, where it means something else in another."""

CALLS = {
    "evaluate": "task is the table or the folder, and kind= says what it holds",
    "fit": _APART,
    "RobertaHubInterface.predict": "for texts there is classify(texts, head)",
}
"""What is said where the arguments of a function do not fit, by its qualified name."""

LOADING = {
    "attn_implementation": "attention has one implementation here",
    "cache_dir": "the cache lies where the environment's TORCH_HOME says, and that of models at "
    "Hugging Face where HF_HOME says",
    "device_map": "say device=, 'cuda' or 'auto'",
    "id2label": "labels belong to a head: register_classification_head(name, labels=[...])",
    "load_in_8bit": "load, and then call roberta.optimize('int8')",
    "local_files_only": "set ROBERTA_HUB_OFFLINE=1 or HF_HUB_OFFLINE=1 before Python starts",
    "low_cpu_mem_usage": "weights are mapped from the file anyway",
    "max_length": "it belongs to a verb: truncate=True cuts at the model's length",
    "model_max_length": "a verb takes truncate=True, which cuts at the model's length",
    "num_labels": "a head is made later: register_classification_head(name, num_classes=...)",
    "output_attentions": "roberta.attention(text) shows them",
    "output_hidden_states": "say extract_features(ids, return_all_hiddens=True)",
    "quantization_config": "load, and then call roberta.optimize('int8')",
    "token": "log in by `hf auth login`, or set HF_TOKEN",
    "torch_dtype": "say dtype=",
    "truncate_dim": "it belongs to a verb: embed(texts, truncate_dim=N)",
    "trust_remote_code": "no code of a checkpoint is ever run",
    "use_auth_token": "log in by `hf auth login`, or set HF_TOKEN",
    "use_fast": "there is one tokenizer for each vocabulary, with the ids of both",
    "use_safetensors": "model.safetensors is taken where it lies",
}
"""Keywords of transformers' `from_pretrained`, each with what to do instead."""

METHODS = {
    "activation_fn": "roberta.kinds[head] says whether a head's labels exclude each other",
    "add_prefix_space": "a vocabulary has its own rule for the beginning of a text",
    "additional_special_tokens": "add_tokens([...]) adds words of your own",
    "batch_decode": "decode(ids) gives the text of ids",
    "batch_encode_plus": "encode_batch(texts) gives the ids of each text",
    "bos_token": "tokenizer.layout has the special ids",
    "chat_template": "RoBERTa reads text and writes none",
    "classes_": "head_labels(head) names the classes",
    "cls_token": "tokenizer.layout has the special ids",
    "config": "roberta.cfg has the configuration",
    "convert_ids_to_tokens": "tokenizer.pieces(ids) gives the piece of each id",
    "convert_tokens_to_ids": "encode(text) gives ids",
    "do_lower_case": "a vocabulary has its own rule for lower case",
    "dtype": "load_model(..., dtype=...) or .to(dtype) changes that of the weights",
    "embed_documents": "embed(texts) gives a vector of each",
    "embed_query": "embed(text) gives its vector",
    "embeddings": "embed(texts) gives a vector of each",
    "encode_document": "embed(texts, prompt_name=...) gives vectors, and search uses the prompts",
    "encode_multi_process": "embed(texts) takes any number of texts",
    "encode_plus": "encode(text) gives ids, encode_batch(texts) of many texts",
    "encode_query": "embed(texts, prompt_name='query') gives vectors, and search uses the prompts",
    "eos_token": "tokenizer.layout has the special ids",
    "finetune": "roberta_hub.fit(table) trains a classifier of your own",
    "fit": "roberta_hub.fit(table) trains a classifier of your own",
    "fit_transform": "embed(texts) gives vectors, for scikit-learn too",
    "forward": "verbs take texts, and extract_features(ids) takes ids",
    "from_pretrained": "roberta_hub.load_model(name or path) loads",
    "generate": "RoBERTa reads text and writes none; fill_mask finds words for <mask>",
    "generation_config": "RoBERTa reads text and writes none",
    "get_input_embeddings": "model.encoder.sentence_encoder.embed_tokens has them",
    "get_sentence_embedding_dimension": "embed(text) has that length",
    "hidden_states": "features(texts, layer=...) gives them",
    "id2label": "head_labels(head) names the classes",
    "last_hidden_state": "features(texts) gives it, for each text without padding",
    "logits": "predict(head, ids, return_logits=True) gives a head's",
    "mask_token": "write <mask> in the text",
    "max_len": "truncate=True in a call cuts long texts",
    "max_length": "truncate=True in a call cuts long texts; roberta.max_seq_length limits those "
    "of embed",
    "model_body": "roberta.model has the layers",
    "model_head": "roberta.model.classification_heads has the heads",
    "model_max_length": "roberta.tokenizer.model_max_length limits every text, "
    "roberta.max_seq_length those of embed",
    "multi_label_threshold": "roberta.thresholds[head] = [...] sets a number for each label",
    "multi_target_strategy": "roberta.kinds[head] = 'multi_label' says that a text may have "
    "several labels",
    "name_or_path": "roberta.source says where the weights came from",
    "ner": "tag(texts) finds names",
    "num_labels": "head_labels(head) names the classes",
    "num_parameters": "sum(p.numel() for p in roberta.parameters()) counts them",
    "pad": "roberta_hub.collate_tokens pads ids to a batch",
    "pad_token": "tokenizer.layout has the special ids",
    "padding_side": "nothing is padded here; roberta_hub.collate_tokens(ids, left_pad=True) pads "
    "ids on the left",
    "pipeline": "each task is a verb: classify, zero_shot, fill_mask, tag, answer, embed",
    "pooler_output": "features(texts, pooling='pooler') gives it",
    "problem_type": "roberta.kinds[head] = 'multi_label', 'single_label' or 'regression' says it",
    "push_to_hub": "save(directory, 'huggingface') writes a folder that `hf upload` takes",
    "question_answering": "answer(question, context) is the verb",
    "resize_token_embeddings": "add_tokens(words) extends vocabulary and embeddings",
    "rerank": "rank(query, texts) orders texts by a cross-encoder",
    "save_pretrained": "save(directory, 'huggingface') writes what transformers reads",
    "sentiment": "classify(texts) asks a head, zero_shot(texts, labels) none of its own",
    "sep_token": "tokenizer.layout has the special ids",
    "summarize": "RoBERTa reads text and writes none",
    "temperature": "fit measures it, and multiplies it into the head",
    "threshold": "roberta.thresholds[head] = [...] sets a number for each label",
    "transform": "embed(texts) gives vectors, for scikit-learn too",
    "translate": "RoBERTa reads text and writes none",
    "truncation_side": "roberta.tokenizer.truncation_side says which end truncate=True cuts",
    "unk_token": "tokenizer.layout has the special ids",
    "vocab": "task.source_dictionary has the symbols",
    "vocab_size": "len(roberta.tokenizer) counts the symbols",
}
"""Methods and attributes of transformers', sentence-transformers' and SetFit's objects, each with
ours: what is said where one is asked for, or assigned."""

_SIMILAR = "similarity(a, b) compares texts, and search(queries, corpus) finds the nearest"
_SPECIAL = "roberta.tokenizer.layout has the special ids"
_NUMBERS = "scores.numbers has accuracy, F1 and the others by name"
_SCORE = "score is the probability of label, scores has those of all labels"
_TABLE = "to_pandas() makes a data frame of answers"
ASKED = {
    "RobertaHubInterface": {
        "cos_sim": _SIMILAR,
        "ents": "tag(text) gives names and other spans",
        "most_similar": _SIMILAR,
        "next": "fitted.next(texts) of a model that fit returned chooses texts to label next; of a "
        "loaded one, `roberta-hub next -m FOLDER -i FILE`",
        "noun_chunks": "tag(text) gives names and other spans",
        "paraphrase_mining": _SIMILAR,
        "pipe": "a verb takes any number of texts: classify(texts), embed(texts), tag(texts)",
        "semantic_search": _SIMILAR,
        "vector": "embed(text) gives a text's",
    },
    "Tokenizer": {
        "all_special_ids": _SPECIAL,
        "bos_token_id": "roberta.tokenizer.bos is that id",
        "cls_token_id": "roberta.tokenizer.bos is that id",
        "eos_token_id": "roberta.tokenizer.eos is that id",
        "get_vocab": "roberta.task.source_dictionary.indices has the id of each symbol",
        "mask_token_id": "roberta.tokenizer.mask_idx is that id",
        "pad_token_id": "roberta.tokenizer.layout.pad is that id",
        "sep_token_id": "roberta.tokenizer.eos is that id",
        "special_tokens_map": _SPECIAL,
        "unk_token_id": "roberta.tokenizer.layout.unk is that id",
    },
    "RobertaClassifier": {
        "classify": "predict(X) gives labels and predict_proba(X) probabilities; "
        "model_.classify(texts) answers as a model does",
        "coef_": "a network has no weight for each word; model_.explain(text) shows what words do",
        "decision_function": "predict_proba(X) gives probabilities, predict_log_proba(X) their "
        "logarithms",
        "feature_importances_": "model_.explain(text) shows what each word does",
        "fitted": "fitted_ has what was chosen and measured",
        "partial_fit": "fit(X, y) learns all rows at once",
        "save": "model_.save(directory) writes the model, and pickle or joblib keep the classifier",
        "save_pretrained": "model_.save(directory, 'huggingface') writes what transformers reads",
    },
    "Fitted": {
        "accuracy": _NUMBERS,
        "history": "no losses are kept; `roberta-hub train` writes them to log.csv",
        "metrics": _NUMBERS,
        "score": _NUMBERS,
    },
    "Scores": {"accuracy": "numbers has accuracy, F1 and the others by name"},
    "ShownList": {
        **dict.fromkeys(("to_df", "to_frame", "DataFrame"), _TABLE),
        **{
            name: f"each answer has its own: [answer.{name} for answer in answers]"
            for name in ("label", "labels", "score", "scores")
        },
    },
    "Prediction": {"confidence": _SCORE, "prob": _SCORE, "probability": _SCORE},
    "Task": {
        "args": "load_model takes fairseq's arguments as keywords, roberta.args has the model's",
        "cfg": "roberta.cfg has the configuration of the model",
        "datasets": "`roberta-hub train` reads data, and roberta_hub.fit(table) a table",
        "load_dataset": "`roberta-hub train` reads data, and roberta_hub.fit(table) a table",
    },
    "ReadOnlyArguments": {
        "lr": "they are the model's arguments alone; `roberta-hub train` has those of training",
    },
}
"""What people ask an object of a class for, each with ours; assigned, it is a name of their own."""

OF_SENTENCE = {
    "default_prompt_name": "default_prompt",
    "max_seq_length": "max_length",
    "normalize_embeddings": "normalize",
    "pooling_mode": "pooling",
    "prompts": "prompts",
    "similarity_fn_name": "similarity",
    "truncate_dim": "truncate_dim",
}
"""Attributes of a `SentenceTransformer`, each with the field of `SentenceSettings` that it is."""

READ_ONLY = {
    "args": "load_model takes fairseq's arguments as keywords",
    "device": "roberta.to(device) moves the model",
    "max_positions": "roberta.tokenizer.model_max_length = N limits every text",
}
"""Attributes of a model that cannot be assigned, each with what does it."""

_LOADS = "load_model(name or path) loads a model with all its heads"
_TOKENIZER = "load_model(name or path) brings its tokenizer, and verbs take texts"
_FITS = (
    "fit(table) trains a classifier of your own, and RobertaClassifier is one for scikit-learn; "
    "`roberta-hub train` has every setting"
)
_PADS = "nothing is padded here; collate_tokens pads ids to a batch"
CLASSES = {
    "AdamW": _FITS,
    "AutoConfig": "load_model(name or path).cfg has the configuration",
    "AutoModel": _LOADS,
    "AutoModelForMaskedLM": "load_model(name or path).fill_mask(text) is the verb",
    "AutoModelForMultipleChoice": "load_model(name or path).choose(context, options) is the verb",
    "AutoModelForQuestionAnswering": "load_model(name or path).answer(question, context) is the "
    "verb",
    "AutoModelForSequenceClassification": "load_model(name or path).classify(text) is the verb",
    "AutoModelForTokenClassification": "load_model(name or path).tag(text) is the verb",
    "AutoTokenizer": _TOKENIZER,
    "CrossEncoder": "load_model(name or path).rank(query, texts) orders texts",
    "DataCollatorForLanguageModeling": "`roberta-hub train pretrain=base` masks as it goes",
    "DataCollatorWithPadding": _PADS,
    "InputExample": "texts are str, and a pair is a tuple: [(first, second)]",
    "SentenceTransformer": "load_model(name or path).embed(texts) gives vectors",
    "SentenceTransformerTrainer": _FITS,
    "SetFitModel": _FITS,
    "SetFitTrainer": _FITS,
    "TextClassificationPipeline": "load_model(name or path).classify(texts) is the verb",
    "Trainer": _FITS,
    "TrainingArguments": _FITS,
    "from_pretrained": "load_model(name or path) loads",
    "load": "load_model(name or path) loads",
    "losses": _FITS,
    "pipeline": "load_model(name or path) loads, and each task is a verb: classify, fill_mask, tag",
    "set_seed": "fit(table, seed=...) and `roberta-hub train seed=...` set the seed; "
    "torch.manual_seed(...) sets all others",
    "util": "load_model(name or path) has similarity(a, b) and search(queries, corpus)",
}
"""Names that people import from other libraries, each with ours."""
_HEADED = {
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
    "ForPreTraining": "AutoModelForMaskedLM",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "TokenizerFast": "AutoTokenizer",
    "Tokenizer": "AutoTokenizer",
    "Model": "AutoModel",
}
"""How transformers' classes of one architecture end, each with the class of any."""
ARCHITECTURES = (
    "Albert",
    "Bert",
    "Camembert",
    "Data2VecText",
    "DistilBert",
    "Electra",
    "RobertaPreLayerNorm",
    "Roberta",
    "XLMRobertaXL",
    "XLMRoberta",
)
"""How the names of their classes begin."""


def class_advice(name: str) -> str:
    """Say what is ours of a name that people import from another library; "": nothing.

    Example:
        >>> class_advice("DistilBertForTokenClassification")
        'load_model(name or path).tag(text) is the verb'
        >>> class_advice("XLMRobertaTokenizerFast")
        'load_model(name or path) brings its tokenizer, and verbs take texts'
        >>> class_advice("GPT2Model")
        ''
    """
    ends = [name.removeprefix(begins) for begins in ARCHITECTURES if name.startswith(begins)]
    known = [_HEADED[end] for end in ends if end in _HEADED]
    return CLASSES.get(known[0] if known else name, "")


FAIRSEQ_PROGRAMS = {
    "preprocess": "`roberta-hub preprocess` writes its files",
    "validate": "`roberta-hub evaluate` judges a model",
    "score": "`roberta-hub evaluate` judges a model",
    "eval_lm": "`roberta-hub score` says how natural a text is",
    "generate": "RoBERTa reads text and writes none",
    "interactive": "`roberta-hub ui` shows a model on a page",
}
"""fairseq's programs that are no trainers, each with what does its work."""

COMMANDS = {
    "api": ("serve",),
    "server": ("serve",),
    "attribute": ("explain",),
    "benchmark": ("evaluate", "compare"),
    "cache": ("models", "download"),
    "cross-encode": ("rank",),
    "demo": ("ui",),
    "embeddings": ("embed",),
    "embedding": ("embed",),
    "encode": ("embed", "tokens"),
    "entail": ("classify", "zero-shot"),
    "entities": ("tag",),
    "eval": ("evaluate",),
    "extract": ("features", "tag"),
    "fetch": ("download",),
    "fill": ("fill-mask",),
    "find": ("similar",),
    "finetune": ("fit", "train"),
    "gradio": ("ui",),
    "gui": ("ui",),
    "infer": ("classify", "zero-shot"),
    "inference": ("classify", "zero-shot"),
    "info": ("scan", "doctor"),
    "inspect": ("scan",),
    "label": ("classify", "zero-shot"),
    "learn": ("fit",),
    "interpret": ("explain",),
    "lime": ("explain",),
    "list": ("models",),
    "ls": ("models",),
    "mask": ("fill-mask",),
    "mlm": ("fill-mask",),
    "nearest": ("similar",),
    "ner": ("tag",),
    "nli": ("classify", "zero-shot"),
    "perplexity": ("score",),
    "pos": ("tag",),
    "predict": ("classify", "zero-shot"),
    "pretrain": ("train",),
    "pull": ("download",),
    "qa": ("answer",),
    "question": ("answer",),
    "rerank": ("rank",),
    "retrieve": ("similar",),
    "search": ("similar",),
    "saliency": ("explain",),
    "semantic-search": ("similar",),
    "sentiment": ("classify", "zero-shot"),
    "setfit": ("fit",),
    "shap": ("explain",),
    "similarity": ("similar",),
    "squad": ("answer",),
    "test": ("evaluate", "verify"),
    "tokenise": ("tokens",),
    "tokenize": ("tokens",),
    "topic": ("classify", "zero-shot"),
    "unmask": ("fill-mask",),
    "vectorize": ("embed",),
    "vectors": ("embed",),
}
"""What people type for a command of the shell, each with the commands that do it."""
WRITERS = ("chat", "complete", "generate", "paraphrase", "summarise", "summarize", "translate")
"""Commands for what writes text."""

TASKS = {
    "feature-extraction": ("embed or features", "embed or features"),
    "fill-mask": ("fill_mask", "fill-mask"),
    "ner": ("tag", "tag"),
    "question-answering": ("answer", "answer"),
    "sentence-similarity": ("similarity", "similar"),
    "sentiment-analysis": ("classify or zero_shot", "classify or zero-shot"),
    "text-classification": ("classify or zero_shot", "classify or zero-shot"),
    "token-classification": ("tag", "tag"),
    "zero-shot-classification": ("zero_shot", "zero-shot"),
}
"""Tasks of transformers' `pipeline`, each with our verb, in Python and in a shell."""
WRITING = ("summarization", "text-generation", "text2text-generation", "translation")
"""Tasks of transformers' `pipeline` that write text."""


def task_advice(name: str) -> Remedy | None:
    """Say which verb does a task of transformers' `pipeline`; None where the name is none.

    Example:
        >>> task_advice("fill-mask").python
        "that is a task of transformers' pipeline; here it is a verb of a loaded model: fill_mask"
        >>> task_advice("mnli")
    """
    if name in WRITING:
        return Remedy("that task writes text, and RoBERTa only reads it")
    if name not in TASKS:
        return None
    task = "that is a task of transformers' pipeline; here it is a verb"
    python, shell = TASKS[name]
    return Remedy(f"{task} of a loaded model: {python}", f"{task}: roberta-hub {shell}")


IN_PYTHON = {
    "attention": "a method of the model in Python, roberta.attention(texts)",
    "decode": "a method of the model in Python, roberta.decode(ids)",
    "disambiguate-pronoun": "a method of the model in Python, roberta.disambiguate_pronoun(text)",
    "login": "done by `hf auth login`, or by the variable HF_TOKEN, for models at Hugging Face",
    "optimize": "a method of the model in Python, roberta.optimize(); in the shell a model is "
    "always optimized",
    "help": "an option, roberta-hub --help, and of each command",
    "quantize": "a method of the model in Python, roberta.optimize('int8')",
    "save": "a method of the model in Python, roberta.save(path); in the shell there is convert",
    "upload": "done by `hf upload`, which takes what roberta-hub convert --to huggingface writes",
    "version": "an option, roberta-hub --version",
}
"""What the shell has no command for, and where it is."""


OPTIONS_ELSEWHERE = {
    "-V": "--version shows the version.",
    "-v": "--version shows the version; there is no louder mode.",
    "--batch-size": "A batch is so many tokens, and the command sizes it; leave it out.",
}
"""Options of other commands, each with what to do; of a verb that has one, it is that."""


def command_advice(name: str) -> tuple[str, ...] | str:
    """Say which commands of the shell do what another name means; () where it means none.

    Example:
        >>> command_advice("NER"), command_advice("text_classification"), command_advice("paint")
        (('tag',), ('classify', 'zero-shot'), ())
        >>> command_advice("summarize")
        'RoBERTa reads text and writes none; fill-mask finds words for <mask>'
    """
    name = name.lower().replace("_", "-")
    if name in IN_PYTHON:
        return f"{name} is {IN_PYTHON[name]}"
    if name in WRITERS or name in WRITING:
        return "RoBERTa reads text and writes none; fill-mask finds words for <mask>"
    if name in TASKS:
        return tuple(TASKS[name][1].split(" or "))
    return COMMANDS.get(name, ())
