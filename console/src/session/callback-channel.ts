/**
 * The page to which an issuer, or the service of a destination, sends the browser back hands its URL to the console over this
 * channel: other origins cannot read it, and it needs no `opener`, which an issuer may cut off.
 */
export const CALLBACK_CHANNEL = 'tributary sign-in';
