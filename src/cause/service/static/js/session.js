// The token: in this tab's session storage and nowhere else. It ends with the tab and is never in an address.

const NAME = "cause-token";

export const token = {
  get: () => sessionStorage.getItem(NAME),
  keep: (secret) => sessionStorage.setItem(NAME, secret),
  drop: () => sessionStorage.removeItem(NAME),
};
