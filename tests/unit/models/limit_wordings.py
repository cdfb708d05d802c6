"""Wordings of hosts that reject a request because of its output limit or its length, as reported by their users."""

from collections.abc import Callable

Wording = Callable[[int, int, int], str]
"""The text for a prompt of ``n`` tokens, an output limit of ``m`` tokens, and the limit of the host."""

WINDOW: dict[str, Wording] = {
    "vLLM": lambda n, m, w: (
        f"'max_tokens' or 'max_completion_tokens' is too large: {m}. This model's maximum context length is {w} tokens and your "
        f"request has {n} input tokens ({m} > {w} - {n}). None"
    ),
    "vLLM, old": lambda n, m, w: (
        f"This model's maximum context length is {w} tokens. However, you requested {n + m} tokens ({n} in the messages, {m} in "
        "the completion). Please reduce the length of the messages or completion."
    ),
    "vLLM, new": lambda n, m, w: (
        f"This model's maximum context length is {w} tokens. However, you requested {m} output tokens and your prompt contains at "
        f"least {n} input tokens, for a total of at least {n + m} tokens. Please reduce the length of the input prompt or the "
        f"number of requested output tokens. (parameter=input_tokens, value={n})"
    ),
    "vLLM without the prompt": lambda n, m, w: (
        f"max_tokens={m} cannot be greater than max_model_len=max_total_tokens={w}. Please request fewer output tokens. "
        f"(parameter=max_tokens, value={m})"
    ),
    "vLLM with a wrong prompt": lambda n, m, w: (
        f"You passed {w + 1} input tokens and requested {m} output tokens. However, the model's context length is only {w} tokens, "
        f"resulting in a maximum input length of {w - m} tokens. Please reduce the length of the input prompt. "
        f"(parameter=input_tokens, value={w + 1})"
    ),
    "vLLM with characters": lambda n, m, w: (
        f"This model's maximum context length is {w} tokens. However, you requested {m} output tokens and your prompt contains {4 * n} "
        f"characters (more than {max(0, w - m) * 4} characters, which is the upper bound for {max(0, w - m)} input tokens). Please "
        f"reduce the length of the input prompt or the number of requested output tokens. (parameter=input_text, value={4 * n})"
    ),
    "vLLM 0.15": lambda n, m, w: (
        f"This model's maximum context length is {w} tokens. However, your request has {n} input tokens plus {m} 'max_tokens'. Please "
        f"reduce one or the other. (parameter=input_tokens, max_tokens, value=({n}, {m}))"
    ),
    "SiliconFlow": lambda n, m, w: f"max_total_tokens ({n + m}) must be less than or equal to max_seq_len ({w})",
    "Snowflake": lambda n, m, w: f"max tokens of {n + m} exceeded limit of {w}",
    "KoboldCpp": lambda n, m, w: f"Requested max_length {m} + prompt {n} too big for max_context_length {w}",
    "unknown, with the total": lambda n, m, w: f"The total of input and output tokens, {n + m}, is more than {w}",
    "SGLang": lambda n, m, w: (
        f"Requested token count exceeds the model's maximum context length of {w} tokens. You requested a total of {n + m} tokens: "
        f"{n} tokens from the input messages and {m} tokens for the completion. Please reduce the number of tokens in the input "
        "messages or the completion to fit within the limit."
    ),
    "TGI": lambda n, m, w: (
        f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {w}. Given: {n} `inputs` tokens and {m} "
        "`max_new_tokens`"
    ),
    "OpenAI, old": lambda n, m, w: (
        f"This model's maximum context length is {w} tokens, however you requested {n + m} tokens ({n} in your prompt; {m} for the "
        "completion). Please reduce your prompt; or completion length."
    ),
    "Anthropic": lambda n, m, w: (
        f"input length and `max_tokens` exceed context limit: {n} + {m} > {w}, decrease input length or `max_tokens` and try again"
    ),
    "Groq": lambda n, m, w: (
        "Request too large for model `llama-3.1-8b-instant` in organization `org_01` service tier `on_demand` on tokens per minute "
        f"(TPM): Limit {w}, Requested {n + m}, please reduce your message size and try again."
    ),
    "Mistral": lambda n, m, w: (
        f"Prompt contains {n} tokens and {m} draft tokens, too large for model with {w} maximum context length"
    ),
    "OpenRouter": lambda n, m, w: (
        f"This endpoint's maximum context length is {w} tokens. However, you requested about {n + m} tokens ({n} of text input, "
        f'{m} in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt '
        "automatically."
    ),
    "Moonshot": lambda n, m, w: (
        f"Invalid request: Your request exceeded model token limit: {w} (requested: {n + m})"
    ),
    "Cerebras": lambda n, m, w: (
        f"Please reduce the length of the messages or completion. Current length is {n + m} while limit is {w}"
    ),
    "SambaNova": lambda n, m, w: (
        f"Requested generation length {m} is not possible! The provided prompt is {n} tokens long, so generating {m} tokens requires "
        f"a sequence length of {n + m}, but the maximum supported sequence length is just {w}!"
    ),
    "watsonx": lambda n, m, w: (
        f"the number of input tokens {n} plus prefix length 0 plus max new tokens {m} cannot exceed the total tokens limit {w} for "
        "this model"
    ),
    "TensorRT-LLM": lambda n, m, w: (
        f"The sum of prompt length ({n}.0), query length (0) and max_tokens ({m}) should not exceed max_num_tokens ({w})"
    ),
    "MLX": lambda n, m, w: f"Context length exceeded: {n + m} > {w}",
    "Cohere": lambda n, m, w: (
        f"too many tokens: total number of tokens (prompt and prediction) cannot exceed {w} - received {n + m}. Try using a shorter "
        "prompt or a smaller max_tokens value."
    ),
    "Cloudflare": lambda n, m, w: (
        f"AiError: The estimated number of input and maximum output tokens ({n + m}) exceeded this model context window limit ({w})."
    ),
    "TabbyAPI": lambda n, m, w: f"Request length {n} + {m} is greater than max_seq_len {w}",
    "ExLlama": lambda n, m, w: (
        f"Job requires {(n + m) // 256 + 1} pages (only {w // 256} available) and cannot be enqueued. Total cache allocated is "
        f"{w // 256} * 256 = {w} tokens"
    ),
    "LightLLM": lambda n, m, w: (
        f"the req token total len + 1 (input len + output len + 1) is too long > max_req_total_len:{w}"
    ),
    "Yandex": lambda n, m, w: (
        f"The sum of the number of input tokens and maxTokens must be no more than {w}, got {n + m}"
    ),
    "LMDeploy": lambda n, m, w: f"The sum of input tokens ({n}) and max_new_tokens ({m}) exceeds session_len ({w}).",
    "Russian": lambda n, m, w: (
        f"Максимальная длина контекста этой модели {w} токенов, запрошено {n + m} ({n} в сообщениях, {m} в ответе)."
    ),
    "with separators": lambda n, m, w: (
        f"This model's maximum context length is {w:,} tokens. However, you requested {n + m:,} tokens ({n:,} in the messages, {m:,} "
        "in the completion)."
    ),
    "unknown, with all numbers": lambda n, m, w: f"Too big: {n} prompt + {m} reply = {n + m}, and the max is {w}",
    "Chinese": lambda n, m, w: (
        f"该模型最大上下文长度为 {w} 个 token，您请求了 {n + m} 个 token（其中消息 {n} 个，补全 {m} 个），请缩短输入。"
    ),
    "Chinese, sum": lambda n, m, w: f"输入 {n} tokens 与 max_tokens {m} 之和不能超过 {w}",
    "Chinese, traditional": lambda n, m, w: f"請求的總長度 {n + m} 超過了模型的上下文長度 {w}，輸入 {n} tokens，輸出 {m} tokens",
    "Japanese": lambda n, m, w: (
        f"このモデルの最大コンテキスト長は{w}トークンです。リクエストは{n + m}トークン（入力{n}、出力{m}）です。"
    ),
}  # fmt: skip
"""The prompt and the output limit together are above the context window."""

OUTPUT: dict[str, Wording] = {
    "OpenAI": lambda n, m, c: (
        f"max_tokens is too large: {m}. This model supports at most {c} completion tokens, whereas you provided {m}."
    ),
    "OpenAI Responses": lambda n, m, c: (
        f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {c}, but got {m} instead."
    ),
    "JSON schema": lambda n, m, c: f"{m} is greater than the maximum of {c} - 'max_tokens'",
    "pydantic": lambda n, m, c: f"max_tokens: Input should be less than or equal to {c}",
    "Anthropic": lambda n, m, c: (
        f"max_tokens: {m} > {c}, which is the maximum allowed number of output tokens for claude-3-haiku-20240307"
    ),
    "Bedrock": lambda n, m, c: (
        f"The maximum tokens you requested exceeds the model limit of {c}. Try again with a maximum tokens value that is lower than "
        f"{c}."
    ),
    "Vertex": lambda n, m, c: (
        f"Unable to submit request because it has a maxOutputTokens value of {m} but the supported range is from 1 (inclusive) to "
        f"{c + 1} (exclusive). Update the value and try again."
    ),
    "DeepSeek": lambda n, m, c: f"Invalid max_tokens value, the valid range of max_tokens is [1, {c}]",
    "Groq": lambda n, m, c: (
        f"`max_tokens` must be less than or equal to `{c}`, the maximum value for `max_tokens` is less than the `context_window` for "
        "this model"
    ),
    "Bedrock, schema": lambda n, m, c: (
        f"Malformed input request: #/max_gen_len: {m} is not less or equal to {c}, please reformat your input and try again."
    ),
    "Databricks": lambda n, m, c: (
        f"Bad request: rpc error: code = InvalidArgument desc = max_tokens ({m}) cannot exceed {c}. Please reduce the length of max "
        "output tokens generated."
    ),
    "Volcengine": lambda n, m, c: (
        f"The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, expected a value "
        f"<= {c}, but got {m} instead. Request id: 021787281042180b566464da517b102b4cb09cdfd60e7ee3d23dd"
    ),
    "DashScope": lambda n, m, c: (
        f"<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, {c}]"
    ),
    "Mistral": lambda n, m, c: f"max_tokens ({m}) exceeds the limit of {c}",
    "SiliconFlow": lambda n, m, c: f"max_tokens (current value: {m}) must be between 0 and {c} ",
    "NIM": lambda n, m, c: f"max_tokens must be at most {c}",
    "xAI": lambda n, m, c: f"max_completion_tokens value {m} exceeds maximum allowed value of {c}",
    "Zhipu": lambda n, m, c: f"The max_tokens parameter is illegal: must be in range [1, {c}]",
    "gateway": lambda n, m, c: f"Output token limit exceeded: requested {m}, allowed {c}",
    "unknown": lambda n, m, c: f"This model only supports {c} max output tokens, but {m} were requested",
    "Qwen, Chinese": lambda n, m, w: f"参数 max_tokens 非法，取值范围为 [1, {w}]",
    "GLM, Chinese": lambda n, m, w: f"max_tokens参数非法：最大值为{w}，当前值为{m}",
    "DeepSeek, Chinese": lambda n, m, w: f"max_tokens 不能超过 {w}，您设置的是 {m}",
    "Moonshot, Chinese": lambda n, m, w: f"max_tokens（{m}）超过了模型的最大输出长度 {w}",
}  # fmt: skip
"""The output limit is above that of the model."""

PROMPT: dict[str, Wording] = {
    "vLLM": lambda n, m, w: (
        f"The decoder prompt (length {n}) is longer than the maximum model length of {w}. Make sure that `max_model_len` is no smaller "
        "than the number of text tokens."
    ),
    "SGLang": lambda n, m, w: f"The input ({n} tokens) is longer than the model's context length ({w} tokens).",
    "OpenAI": lambda n, m, w: (
        f"Input tokens exceed the configured limit of {w} tokens. Your messages resulted in {n} tokens. Please reduce the length of "
        "the messages."
    ),
    "Anthropic": lambda n, m, w: f"prompt is too long: {n} tokens > {w} maximum",
    "Gemini": lambda n, m, w: (
        f"The input token count ({n}) exceeds the maximum number of tokens allowed ({w})."
    ),
    "Mistral": lambda n, m, w: f"Prompt contains {n} tokens, too large for model with {w} maximum context length",
    "Fireworks": lambda n, m, w: f"The prompt is too long: {n}, model maximum context length: {w}",
    "xAI": lambda n, m, w: (
        f"This model's maximum prompt length is {w} but the request contains {n} tokens."
    ),
    "LM Studio": lambda n, m, w: (
        f"Trying to keep the first {n} tokens when context the overflows. However, the model is loaded with context length of only {w} "
        "tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"
    ),
    "LM Studio, new": lambda n, m, w: f"Cannot truncate prompt with n_keep ({n}) >= n_ctx ({w})",
    "LM Studio, with both": lambda n, m, w: (
        f"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: {n}>= n_ctx: {w}). Try to "
        "load the model with a larger context length, or provide a shorter input."
    ),
    "Triton": lambda n, m, w: f"Cannot process new request: Prompt length ({n}) exceeds maximum sequence length ({w})",
    "LiteLLM": lambda n, m, w: f"Model=m, Max Input Tokens={w}, Got={n}",
    "SGLang, new": lambda n, m, w: (
        f"Input length ({n} tokens) exceeds the maximum allowed length ({w} tokens). Use a shorter input or enable "
        "--allow-auto-truncate."
    ),
    "Yandex": lambda n, m, w: f"Error: number of input tokens must be no more than {w}, got {n}",
    "llama.cpp": lambda n, m, w: (
        f"request ({n} tokens) exceeds the available context size ({w} tokens), try increasing it"
    ),
    "llama-cpp-python": lambda n, m, w: f"Requested tokens ({n}) exceed context window of {w}",
    "Copilot": lambda n, m, w: f"prompt token count of {n} exceeds the limit of {w}",
    "TabbyAPI": lambda n, m, w: f"Prompt length {n} is greater than max_seq_len {w}",
    "Qwen, Chinese": lambda n, m, w: f"输入长度 {n} 超过模型最大上下文长度 {w}",
    "GLM, Chinese": lambda n, m, w: f"Prompt 超长：请求 token 数 {n} 超出模型上下文窗口 {w}",
    "Chinese, of two numbers the second": lambda n, m, w: f"模型上下文长度为 {w} tokens，当前输入为 {n} tokens",
}  # fmt: skip
"""The prompt alone is above the context window."""
