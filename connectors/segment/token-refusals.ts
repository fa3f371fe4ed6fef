/** Codes in the `errors` of a 2xx by which vendors refuse an access token; others answer 401. For documents see the source. */
const CODES: Readonly<Record<string, RegExp>> = {
  // https://experienceleague.adobe.com/en/docs/marketo-developer/marketo/rest/error-codes
  'marketo-static-lists': /^60[12]$/,
};

/** Whether the body of a 2xx says that the access token is not valid any more. Loaded by the process of the pack. */
export function refusesToken(destination: string, body: Uint8Array): boolean {
  const codes = CODES[destination];
  if (codes === undefined || body.length === 0) return false;
  try {
    const { errors }: { errors?: readonly { readonly code?: unknown }[] } = JSON.parse(
      new TextDecoder().decode(body),
    );
    return Array.isArray(errors) && errors.some(({ code }) => codes.test(String(code)));
  } catch {
    return false;
  }
}
