import { CALLBACK_CHANNEL } from './callback-channel.ts';

/** In the window or frame of a sign-in: the code in the URL is worth nothing without the verifier of the page that began. */
const channel = new BroadcastChannel(CALLBACK_CHANNEL);
channel.postMessage(location.href);
channel.close();
history.replaceState(null, '', location.pathname);
window.close();
