/** A member of an answer with the code of an error, or a list of them, and the codes that refuse an access token. */
interface TokenRefusal {
  readonly errors: string;
  readonly code: string;
  readonly codes: RegExp;
}

/** Vendors that refuse an access token in the body of another answer than 401. For documents see the source. */
const REFUSALS: Readonly<Record<string, TokenRefusal>> = {
  // https://developers.facebook.com/docs/graph-api/guides/error-handling, with status 400
  'facebook-custom-audiences': { errors: 'error', code: 'code', codes: /^(?:102|190)$/ },
  // https://experienceleague.adobe.com/en/docs/marketo-developer/marketo/rest/error-codes
  'marketo-static-lists': { errors: 'errors', code: 'code', codes: /^60[12]$/ },
  // https://learn.microsoft.com/en-us/advertising/guides/operation-error-codes
  'ms-bing-ads-audiences': {
    errors: 'Errors',
    code: 'ErrorCode',
    codes: /^(?:AuthenticationTokenExpired|InvalidCredentials)$/,
  },
  // https://business-api.tiktok.com/portal/docs?id=1737172488964097: 40102 is expired, 40104 absent, 40105 not valid
  'tiktok-audiences': { errors: '', code: 'code', codes: /^4010[245]$/ },
};

/** Whether the body of an answer says that the access token is not valid (any more). Loaded by the process of the pack too. */
export function refusesToken(destination: string, body: Uint8Array): boolean {
  const refusal = REFUSALS[destination];
  if (refusal === undefined || body.length === 0) return false;
  try {
    const answer: Record<string, unknown> = JSON.parse(new TextDecoder().decode(body));
    const errors = refusal.errors === '' ? answer : answer[refusal.errors];
    return [errors].flat().some((error: unknown) => {
      const { [refusal.code]: code, Code = code } = Object(error);
      return refusal.codes.test(String(Code));
    });
  } catch {
    return false;
  }
}
