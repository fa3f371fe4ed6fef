/** The nonce that the content security policy of this page asks of styles made at run time. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name=style-nonce]')?.content ?? '';
}
