/** An answer of the API that is not a success, or no answer. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** The header `X-Request-ID`, which identifies the request for support and in the audit log. */
  readonly requestId: string | undefined;
  /** On 401 and 403: the missing credential or permission, from `error_description` in the header `WWW-Authenticate`. */
  readonly missing: string | undefined;
  /** Seconds after which the request may be sent again. */
  readonly retryAfterS: number | undefined;
  /** The whole body: `error` and the members beside it. */
  readonly body: Readonly<Record<string, unknown>>;

  constructor(
    message: string,
    {
      status,
      requestId,
      missing,
      retryAfterS,
      body = {},
    }: Partial<Omit<ApiError, keyof Error>> & { status: number },
  ) {
    super(message);
    this.status = status;
    this.requestId = requestId;
    this.missing = missing;
    this.retryAfterS = retryAfterS;
    this.body = body;
  }

  /** The faults of the request by part, on 400 and 413. */
  get faults(): readonly Fault[] {
    const { details } = this.body;
    return Array.isArray(details) ? details.filter(isFault) : [];
  }

  /** Why the request conflicts with the stored state, on 409. */
  get reason(): string | undefined {
    return typeof this.body.reason === 'string' ? this.body.reason : undefined;
  }

  /** Whether the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export interface Fault {
  /** JSON pointer into the body, or the name of a parameter. */
  readonly path: string;
  readonly message: string;
}

function isFault(value: unknown): value is Fault {
  const { path, message } = Object(value) as Partial<Fault>;
  return typeof path === 'string' && typeof message === 'string';
}

export async function apiErrorOf(response: Response): Promise<ApiError> {
  const body = await bodyOf(response);
  const { error } = body;
  const message = typeof error === 'string' ? error : `${response.status} ${response.statusText}`.trim();
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new ApiError(message, {
    status: response.status,
    requestId: response.headers.get('x-request-id') ?? undefined,
    missing: missingIn(response.headers.get('www-authenticate')),
    retryAfterS: Number.isFinite(retryAfter) ? retryAfter : undefined,
    body,
  });
}

/** Matches the whole description: the gateway writes it without quotes and escapes. */
function missingIn(challenge: string | null): string | undefined {
  return /error_description="([^"]*)"/.exec(challenge ?? '')?.[1];
}

async function bodyOf(response: Response): Promise<Record<string, unknown>> {
  try {
    const body: unknown = await response.json();
    return typeof body === 'object' && body !== null ? { ...body } : {};
  } catch {
    return {}; // The page of a proxy, or an empty body: the status alone describes the failure.
  }
}
