type Check = (text: string) => boolean;

const CHARACTER = "[\\w.~!$&'()*+,;=-]|%[\\da-f]{2}";
const SCHEME = /^[a-z][a-z\d+.-]*$/i;
const PATH = new RegExp(`^(?:${CHARACTER}|[:@/])*$`, 'i');
const QUERY = new RegExp(`^(?:${CHARACTER}|[:@/?])*$`, 'i');
const USER = new RegExp(`^(?:${CHARACTER}|:)*$`, 'i');
const NAME = new RegExp(`^(?:${CHARACTER})*$`, 'i');
const PORT = /^(?::\d*)?$/;
const FUTURE = /^v[\da-f]+\.[\w.~!$&'()*+,;=:-]+$/i;

/** The parts as RFC 3986, appendix B, tells them apart. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#([\s\S]*))?$/;

const TEMPLATE_LITERAL = '[^\\x00-\\x20"%<>\\\\^`{|}\\x7f-\\x9f]|%[\\da-f]{2}';
const VARIABLE = '(?:\\w|%[\\da-f]{2})(?:\\.?(?:\\w|%[\\da-f]{2}))*(?::[1-9]\\d{0,3}|\\*)?';
const TEMPLATE = new RegExp(
  `^(?:${TEMPLATE_LITERAL}|\\{[+#./;?&=,!@|]?${VARIABLE}(?:,${VARIABLE})*\\})*$`,
  'i',
);

/** A URI template of RFC 6570. */
export function isUriTemplate(text: string): boolean {
  return TEMPLATE.test(text);
}

/** The checks of RFC 3986, each in time linear in the text: a `uri` has a scheme, a reference need not. */
export function uriChecks(isIpv6: Check): { readonly uri: Check; readonly reference: Check } {
  function isHost(host: string): boolean {
    if (!host.startsWith('[')) return NAME.test(host);
    const address = host.slice(1, -1);
    return host.endsWith(']') && (isIpv6(address) || FUTURE.test(address));
  }

  function isAuthority(authority: string): boolean {
    const at = authority.indexOf('@');
    const rest = authority.slice(at + 1);
    const end = rest.startsWith('[') ? rest.indexOf(']') + 1 : rest.indexOf(':');
    const port = end === -1 ? rest.length : end;
    return (
      USER.test(authority.slice(0, Math.max(0, at))) &&
      isHost(rest.slice(0, port)) &&
      PORT.test(rest.slice(port))
    );
  }

  function isReference(text: string, absolute: boolean): boolean {
    const [whole, scheme, authority, path = '', query = '', fragment = ''] = PARTS.exec(text) ?? [];
    if (whole === undefined) return false;
    if (scheme === undefined ? absolute || text.startsWith(':') : !SCHEME.test(scheme)) return false;
    if (authority !== undefined && !(isAuthority(authority) && (path === '' || path.startsWith('/'))))
      return false;
    return PATH.test(path) && QUERY.test(query) && QUERY.test(fragment);
  }

  return { uri: (text) => isReference(text, true), reference: (text) => isReference(text, false) };
}
